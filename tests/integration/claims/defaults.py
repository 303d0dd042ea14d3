"""Claims about defaults, names of settings and formats, read from Kafka's own classes and files."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from confluent_kafka.admin import ConfigResource

from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials

trials = Trials()

_BROKER = ("kafka.server.KafkaConfig",)
_PRODUCER = ("org.apache.kafka.clients.producer.ProducerConfig",)
_DUMP = ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments")
_PERFORMANCE = ("org.apache.kafka.tools.ProducerPerformance",)
_CONFIGS = ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand")


def documented_default(subject: Subject, config: tuple[str, ...], key: str) -> str | None:
    """Return a setting's default, as its class prints it; None without such a setting.

    Until 2.x the class prints a table with one row a setting, later a table for each.
    """
    text = subject.tool(config)
    row = re.search(rf"<tr>\s*<td>{re.escape(key)}</td>(.*?)</tr>", text, re.S)
    if row:
        return re.findall(r"<td>(.*?)</td>", row[1], re.S)[2].strip()
    own = re.search(rf'id="(?:[a-z]+configs_)?{re.escape(key)}"(.*?)</table>', text, re.S)
    found = own and re.search(r"Default:</th>\s*<td>(.*?)</td>", own[1], re.S)
    return found[1].strip() if found else None


def producer_default(subject: Subject, key: str) -> str | None:
    """Return a default of the Java producer."""
    return documented_default(subject, _PRODUCER, key)


def broker_setting(subject: Subject, key: str) -> str | None:
    """Return a broker's effective value of a setting that nobody set; None without such a setting.

    A broker before 0.11 does not describe its settings, so there it is the default of the class.
    """
    if subject.kafka not in SINCE_0_11:
        return documented_default(subject, _BROKER, key)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    answers = subject.cluster.admin.client().describe_configs([broker], request_timeout=30)
    entry = answers[broker].result(60).get(key)
    return None if entry is None else str(entry.value)


def _default(subject: Subject, key: str, claimed: str) -> Observed:
    value = broker_setting(subject, key)
    return Observed(holds=value == claimed, evidence=f"{key} = {value}")


@trials.of("3")
def acks_is_1(subject: Subject) -> Observed:
    value = producer_default(subject, "acks")
    return Observed(holds=value == "1", evidence=f"ProducerConfig: acks = {value}")


@trials.of("6")
def min_isr_is_1_and_unclean_election_is_off(subject: Subject) -> Observed:
    least = broker_setting(subject, "min.insync.replicas")
    unclean = broker_setting(subject, "unclean.leader.election.enable")
    return Observed(
        holds=(least, unclean) == ("1", "false"),
        evidence=f"min.insync.replicas = {least}, unclean.leader.election.enable = {unclean}",
    )


@trials.of("34")
def unclean_election_is_on(subject: Subject) -> Observed:
    return _default(subject, "unclean.leader.election.enable", "true")


@trials.of("20")
def lag_is_counted_in_time_only(subject: Subject) -> Observed:
    messages = broker_setting(subject, "replica.lag.max.messages")
    lag_ms = broker_setting(subject, "replica.lag.time.max.ms")
    return Observed(
        holds=messages is None and lag_ms is not None,
        evidence=f"replica.lag.max.messages is {'no setting' if messages is None else messages}; "
        f"replica.lag.time.max.ms = {lag_ms}",
    )


@trials.of("13")
def retries_are_infinite(subject: Subject) -> Observed:
    retries = producer_default(subject, "retries")
    bound = producer_default(subject, "delivery.timeout.ms")
    return Observed(
        holds=retries == "2147483647" and bound is None,
        evidence=f"ProducerConfig: retries = {retries}, delivery.timeout.ms = {bound}",
    )


@trials.of("48")
def block_on_buffer_full_is_a_setting(subject: Subject) -> Observed:
    value = producer_default(subject, "block.on.buffer.full")
    return Observed(
        holds=value is not None, evidence=f"ProducerConfig: block.on.buffer.full = {value}"
    )


@trials.of("29")
def the_scala_producer_batches_asynchronously(subject: Subject) -> Observed:
    script = "grep -lsF kafka/producer/async/AsyncProducerConfig /opt/kafka/libs/*.jar || true"
    status, output = subject.cluster.nodes[1].container.exec_run(["bash", "-c", script])
    found = PurePosixPath(output.decode().strip()).name
    return Observed(
        holds=status == 0 and bool(found),
        evidence=f"kafka.producer.async is {'in ' + found if found else 'in no jar'}",
    )


@trials.of("N9")
def the_replication_factor_is_1(subject: Subject) -> Observed:
    return _default(subject, "default.replication.factor", "1")


@trials.of("N24", on=SINCE_0_11)
def min_isr_of_the_brokers_is_that_of_topics(subject: Subject) -> Observed:
    topic = subject.topic()

    def change(*how: str) -> str:
        every = ("--entity-type", "brokers", "--entity-default", "--alter")
        return subject.tool_says(_CONFIGS, "--bootstrap-server", subject.address, *every, *how)

    said = change("--add-config", "min.insync.replicas=2")
    value = subject.cluster.interfaces.operations.await_setting(
        topic, "min.insync.replicas", "2", within_s=20
    )
    change("--delete-config", "min.insync.replicas")
    return Observed(
        holds=value == "2",
        evidence=f"kafka-configs says '{said.strip().splitlines()[-1][:120]}'; the topic is "
        f"described with min.insync.replicas = {value}",
    )


def _segments(subject: Subject, topic: str) -> list[str]:
    found = []
    for folder in subject.cluster.nodes[1].spec.directories:
        script = f"ls {folder}/{topic}-0/*.log 2>/dev/null || true"
        _, output = subject.cluster.nodes[1].container.exec_run(["bash", "-c", script])
        found += output.decode().split()
    return sorted(found)


def _dump(subject: Subject, path: str) -> str:
    return subject.tool(_DUMP, "--files", path, "--deep-iteration")


@trials.of("N7")
def a_segment_begins_one_above_its_name(subject: Subject) -> Observed:
    topic = subject.topic(segment_bytes=1048576)
    producer = subject.producer(**{"linger.ms": 5, "compression.type": "none"})
    for _ in range(300):
        producer.produce(topic, bytes(8000))
        producer.poll(0)
    assert producer.flush(60) == 0
    path = _segments(subject, topic)[-1]
    name = int(PurePosixPath(path).stem)
    assert name > 0, "the log has one segment only"
    first = re.search(r"^(?:\| )?(?:baseO|o)ffset: ([0-9]+)", _dump(subject, path), re.M)
    assert first is not None
    return Observed(
        holds=int(first[1]) == name + 1,
        evidence=f"the segment {name} begins with offset {first[1]}",
    )


@trials.of("N8")
def records_have_format_0_or_1(subject: Subject) -> Observed:
    topic = subject.topic()
    assert subject.send(topic) == (0, 0)
    found = re.search(r"magic: ([0-9])", _dump(subject, _segments(subject, topic)[0]))
    assert found is not None
    return Observed(holds=found[1] in "01", evidence=f"DumpLogSegments: magic {found[1]}")


@trials.of("53", on=SINCE_0_11)
def sequences_count_from_0_for_each_producer_and_partition(subject: Subject) -> Observed:
    topics = [subject.topic(), subject.topic()]
    producer = subject.producer(**{"enable.idempotence": True})
    for _ in range(3):
        for topic in topics:
            producer.produce(topic, b"x")
        assert producer.flush(60) == 0
    seen = []
    for topic in topics:
        batches = re.findall(
            r"baseSequence: (-?[0-9]+)", _dump(subject, _segments(subject, topic)[0])
        )
        seen.append([int(one) for one in batches])
    return Observed(
        holds=seen == [[0, 1, 2]] * 2,
        evidence=f"DumpLogSegments: base sequences {seen[0]} and {seen[1]} of one producer in two "
        "partitions",
    )


@trials.of("4", on=SINCE_0_11)
def idempotence_needs_acks_all(subject: Subject) -> Observed:
    def send(*settings: str) -> str:
        arguments = ("--topic", topic, "--num-records", "1", "--record-size", "10")
        servers = f"bootstrap.servers={subject.address}"
        said = subject.tool_says(
            _PERFORMANCE, *arguments, "--throughput", "-1", "--producer-props", servers, *settings
        )
        found = re.search(r"ConfigException: [^\n]*|1 records sent", said)
        return found[0] if found else said.strip()[-200:]

    topic = subject.topic()
    refused, taken = send("enable.idempotence=true", "acks=1"), send("acks=1")
    return Observed(
        holds=refused.startswith("ConfigException") and "1 records sent" in taken,
        evidence=f"kafka-producer-perf-test with idempotence and acks=1: {refused}; with acks=1 "
        f"alone: {taken}",
    )
