"""Claims that a client sees while every broker is in sync."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from ackproof.cluster import readiness
from ackproof.cluster.topology import ZooKeeper
from ackproof.containers.kafka_tools import TOOLS
from ackproof.errors import ClusterError
from ackproof.waiting import last_result
from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials
from integration.sending import log_end
from waiting import until

trials: Trials[Subject] = Trials()

_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
_CONFIGS = TOOLS["kafka-configs"]


@trials.of("2")
def acks_0_succeeds_whatever_the_broker_does(subject: Subject) -> Observed:
    topic = subject.topic(max_message_bytes=100)
    reports: list[object] = []
    producer = subject.producer(acks=0)
    producer.produce(topic, bytes(5000), on_delivery=lambda error, _: reports.append(error))
    producer.flush(60)
    small = subject.send(topic, acks=1)
    return Observed(
        holds=reports == [None] and small == (0, 0),
        evidence=f"a record larger than max.message.bytes: error {reports[0]}; a small one with "
        f"acks=1 afterwards, partition and offset: {small}",
    )


@trials.of("7")
def min_isr_must_be_a_majority(subject: Subject) -> Observed:
    accepted = []
    for least in (1, 3):
        topic = subject.topic(min_insync_replicas=least)
        if subject.send(topic) == (0, 0):
            accepted.append(least)
    return Observed(
        holds=not accepted,
        evidence=f"with 3 replicas, acks=all is acked with min.insync.replicas {accepted}",
    )


@trials.of("51")
def acks_2_waits_for_one_follower(subject: Subject) -> Observed:
    topic = subject.topic()
    said = subject.send(topic, acks=2)
    java = subject.tool_says(
        (_PERFORMANCE,), "--topic", topic, "--num-records", "1", "--record-size", "10",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={subject.address}", "acks=2",
    )  # fmt: skip
    refused = re.search(r"ConfigException: ([^\n]*)", java)
    return Observed(
        holds=isinstance(said, tuple) or refused is None,
        evidence=f"acks=2 of librdkafka: {said}; of the Java client: "
        f"{refused[1] if refused else java[-200:]}",
    )


@trials.of("59")
def more_replicas_than_brokers_are_refused(subject: Subject) -> Observed:
    name = f"t-{uuid4().hex[:8]}"
    try:
        subject.cluster.admin.create_topic(NewTopic(name, num_partitions=1, replication_factor=4))
    except ClusterError as refusal:
        code = getattr(refusal.__cause__, "args", [None])[0]
        said = code.name() if code is not None else str(refusal)
        return Observed(
            holds=said == "INVALID_REPLICATION_FACTOR",
            evidence=f"four replicas on three brokers: {said}",
        )
    return Observed(holds=False, evidence="four replicas on three brokers are accepted")


@trials.of("N31")
def first_replicas_go_round_the_brokers(subject: Subject) -> Observed:
    name = f"t-{uuid4().hex[:8]}"
    subject.cluster.admin.create_topic(NewTopic(name, num_partitions=6, replication_factor=2))
    operations = subject.cluster.interfaces.operations

    def placed() -> bool:
        found = operations.topic(name)
        return len(found) == 6 and all(one.replicas for one in found.values())

    until(placed, f"{name} is not in the metadata")
    partitions = operations.topic(name)
    firsts = [partitions[number].replicas[0] for number in range(6)]
    return Observed(
        holds=set(Counter(firsts).values()) == {2}, evidence=f"first replicas of 6: {firsts}"
    )


@trials.of("24")
def a_record_at_the_high_watermark_is_committed(subject: Subject) -> Observed:
    topic = subject.topic()
    assert subject.send(topic) == (0, 0)
    end = until(lambda: (found := log_end(subject.cluster, topic)[0]) and found)
    return Observed(
        holds=end == 0,
        evidence=f"after one record, at offset 0, the high watermark is {end}: the next offset",
    )


@trials.of("45")
def offsets_are_kept_in_zookeeper(subject: Subject) -> Observed:
    topic, group = subject.topic(), f"g-{uuid4().hex[:8]}"
    assert subject.send(topic) == (0, 0)
    consumer = Consumer({"bootstrap.servers": subject.cluster.bootstrap_servers, "group.id": group})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        except KafkaException:
            return False  # the coordinator is not there yet
        return True

    until(committed, "the offset cannot be committed")
    consumer.close()
    made = any(name == "__consumer_offsets" for name, _ in subject.cluster.partitions())
    return Observed(
        holds=not made,
        evidence=f"after a commit there is {'a' if made else 'no'} topic __consumer_offsets",
    )


@trials.of("N28", on=SINCE_0_11)
def the_low_watermark_is_that_of_the_slowest_replica(subject: Subject) -> Observed:
    topic = subject.topic()
    for _ in range(3):
        subject.send(topic)
    until(lambda: log_end(subject.cluster, topic)[0] == 3)

    def delete(offset: int, within_s: float) -> str:
        answers = subject.cluster.admin.client().delete_records(
            [TopicPartition(topic, 0, offset)], operation_timeout=within_s, request_timeout=60
        )
        (answer,) = answers.values()
        try:
            return f"low watermark {answer.result(90).low_watermark}"
        except KafkaException as error:
            return str(error.args[0].name())

    for offset in (1, 2, 3):
        subject.cluster.nodes[3].pause()
        frozen = delete(offset, 1)
        # A slow machine may fence it meanwhile: dead replicas do not count.
        alive = 3 in subject.cluster.brokers_known_to(1)
        subject.cluster.nodes[3].resume()
        if alive:
            break
        until(lambda: 3 in subject.cluster.brokers_known_to(1), "broker 3 did not come back")
    whole = delete(offset, 60)
    told = f"low watermark {offset}"
    return Observed(
        holds=alive and frozen != told and whole == told,
        evidence=f"DeleteRecords up to {offset} with one follower frozen: {frozen}; thawed: "
        f"{whole}",
    )


@trials.of("N3")
def an_append_releases_waiting_fetches(subject: Subject) -> Observed:
    topic = subject.topic()
    producer = subject.producer(**{"acks": "all", "linger.ms": 0})
    took = []
    for _ in range(60):
        began = time.monotonic()
        producer.produce(topic, b"x")
        assert producer.flush(60) == 0
        took.append(1000 * (time.monotonic() - began))
    median = statistics.median(took[10:])
    return Observed(
        holds=median < 250,
        evidence=f"median time to an ack {median:.1f} ms; replica.fetch.wait.max.ms is 500",
    )


def _rate(subject: Subject, acks: str | int, count: int, *, window: int | None = None) -> float:
    producer = subject.producer(acks=acks, **{"linger.ms": 1})
    topic = subject.topic()
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    began = time.monotonic()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, bytes(100))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        if window and number % window == 0:
            producer.flush(60)
    assert producer.flush(120) == 0
    return count / (time.monotonic() - began)


@trials.of("N13")
def synchronous_sends_are_slower(subject: Subject) -> Observed:
    single, many = _rate(subject, "all", 200, window=1), _rate(subject, "all", 20_000)
    return Observed(
        holds=many > 5 * single,
        evidence=f"one at a time {single:,.0f} a second, asynchronously {many:,.0f} (acks=all)",
    )


@trials.of("N14")
def fewer_acks_mean_more_throughput(subject: Subject) -> Observed:
    turns = [
        {acks: _rate(subject, acks, 400, window=1) for acks in (0, 1, "all")} for _ in range(7)
    ]  # in turns, because other load on the machine comes and goes
    rates = {acks: statistics.median(one[acks] for one in turns) for acks in turns[0]}
    return Observed(
        holds=rates[0] > rates[1] > rates["all"],
        evidence="one at a time, sends a second, median of seven turns: "
        + ", ".join(f"acks={acks} {rate:,.0f}" for acks, rate in rates.items()),
    )


@trials.of("N11")
def a_burst_does_not_shrink_the_isr(subject: Subject) -> Observed:
    topic, began = subject.topic(), datetime.now(UTC)
    rate = _rate(subject, 1, 300_000)
    logs = subject.cluster.interfaces.logs
    shrank = [b for b in (1, 2, 3) if logs.contains(b, "Shrinking ISR", began)]
    isr = subject.cluster.interfaces.metadata.isr(topic, 0)
    return Observed(
        holds=not shrank,
        evidence=f"300,000 records at {rate:,.0f} a second; no leader shrank an ISR, it is "
        f"{sorted(isr or ())}"
        if not shrank
        else f"broker {shrank[0]} shrank the ISR",
    )


@trials.of("N12")
def a_broker_is_the_controller_and_another_succeeds_it(subject: Subject) -> Observed:
    if not isinstance(subject.cluster.topology.metadata, ZooKeeper):
        return _a_voter_is_the_controller(subject)

    def controller() -> int:
        return int(subject.cluster.admin.client().list_topics(timeout=10).controller_id)

    before = controller()
    subject.cluster.nodes[before].kill()

    def successor() -> int | None:
        try:
            now = controller()
        except KafkaException:
            return None
        return now if now > 0 and now != before else None

    after = until(successor)
    return Observed(holds=True, evidence=f"broker {before} was killed, broker {after} followed it")


def _a_voter_is_the_controller(subject: Subject) -> Observed:
    brokers, before = subject.cluster.broker_ids(), readiness.quorum_leader(subject.cluster)
    subject.cluster.nodes[1].kill()
    after = until(
        lambda: readiness.quorum_leader(subject.cluster), "no leader of the quorum is reported"
    )
    return Observed(
        holds=before in brokers or after != before,
        evidence=f"the active controller is node {before}, none of the brokers {brokers}; broker 1 "
        f"was killed, and it is node {after}",
    )


@trials.of("27")
def the_isr_is_kept_in_zookeeper(subject: Subject) -> Observed:
    topic = subject.topic()
    isr = sorted(subject.cluster.interfaces.metadata.isr(topic, 0) or ())
    zookeeper = isinstance(subject.cluster.topology.metadata, ZooKeeper)
    where = "in a znode" if zookeeper else "by the brokers; no ZooKeeper runs"
    return Observed(holds=zookeeper and isr == [1, 2, 3], evidence=f"the ISR {isr} is told {where}")


@trials.of("N24", on=SINCE_0_11)
def min_isr_of_the_brokers_is_that_of_topics(subject: Subject) -> Observed:
    topic = subject.topic()

    def change(*how: str) -> str:
        every = ("--entity-type", "brokers", "--entity-default", "--alter")
        return subject.tool_says(_CONFIGS, "--bootstrap-server", subject.address, *every, *how)

    said = change("--add-config", "min.insync.replicas=2")
    operations = subject.cluster.interfaces.operations
    value = last_result(
        lambda: operations.setting(topic, "min.insync.replicas"), "2".__eq__, within_s=20
    )
    change("--delete-config", "min.insync.replicas")
    return Observed(
        holds=value == "2",
        evidence=f"kafka-configs says '{said.strip().splitlines()[-1][:120]}'; the topic is "
        f"described with min.insync.replicas = {value}",
    )
