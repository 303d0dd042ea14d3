"""Claims about what can be read and written while brokers are down, frozen or cut off."""

from __future__ import annotations

import logging
import tempfile
import time

import node_actions
from ackproof.cluster import lifecycle
from ackproof_faults import FaultError, IsolateReplication
from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials
from integration.faulting import in_force, recover
from integration.reading import records
from integration.sending import log_end
from waiting import until

trials: Trials[Subject] = Trials()

#: A send that must be refused, and is not repeated.
_ONCE = {"retries": 0, "within_s": 20}


def down(subject: Subject, *brokers: int) -> None:
    """Stop brokers cleanly, so that they are out of every ISR at once."""
    for broker in brokers:
        lifecycle.stop(subject.cluster, broker)


def _end(subject: Subject, topic: str) -> int:
    return log_end(subject.cluster, topic)[0]


@trials.of("19")
def replicas_are_those_in_and_out_of_sync(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=1)
    metadata = subject.cluster.interfaces.metadata
    before = sorted(metadata.isr(topic, 0) or ())
    down(subject, 3)
    until(lambda: 0 < len(metadata.isr(topic, 0) or ()) < 3)
    isr = set(metadata.isr(topic, 0) or ())
    replicas = set(metadata.replicas(topic, 0))
    return Observed(
        holds=before == [1, 2, 3] and (isr, replicas - isr) == ({1, 2}, {3}),
        evidence=f"replicas {sorted(replicas)}, ISR {before}; broker 3 down: ISR {sorted(isr)}, "
        f"out of sync {sorted(replicas - isr)}",
    )


@trials.of("5")
def acks_all_waits_for_every_replica(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    down(subject, 3)
    said = subject.send(topic)
    return Observed(
        holds=not isinstance(said, tuple), evidence=f"one of three replicas is down: {said}"
    )


@trials.of("8")
def acks_all_below_min_isr_is_refused_and_nothing_is_appended(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    down(subject, 3, 2)
    refused = subject.send(topic, **_ONCE)
    plain = subject.send(topic, acks=1)
    return Observed(
        holds=refused == "NOT_ENOUGH_REPLICAS" and plain == (0, 0),
        evidence=f"acks=all: {refused}; acks=1 afterwards, partition and offset: {plain}",
    )


@trials.of("10")
def an_append_moves_the_high_watermark_of_a_lone_leader(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    down(subject, 3, 2)
    assert subject.send(topic, acks=1) == (0, 0)
    time.sleep(2)
    end = _end(subject, topic)
    return Observed(
        holds=end == 1,
        evidence=f"ISR 1, min.insync.replicas 2, a record acked with acks=1: high watermark {end}",
    )


@trials.of("28")
def acks_all_with_a_lone_leader_is_acks_1(subject: Subject) -> Observed:
    topics = {least: subject.topic(min_insync_replicas=least) for least in (1, 2)}
    down(subject, 3, 2)
    answers = {least: subject.send(topic, **_ONCE) for least, topic in topics.items()}
    return Observed(
        holds=answers == {1: (0, 0), 2: "NOT_ENOUGH_REPLICAS"},
        evidence=f"acks=all with ISR 1: min.insync.replicas 1: {answers[1]}, 2: {answers[2]}",
    )


@trials.of("42")
def with_as_many_replicas_as_min_isr_one_death_stops_writes(subject: Subject) -> Observed:
    every, fewer = subject.topic(min_insync_replicas=3), subject.topic(min_insync_replicas=2)
    down(subject, 3)
    said, other = subject.send(every, **_ONCE), subject.send(fewer)
    return Observed(
        holds=said == "NOT_ENOUGH_REPLICAS" and other == (0, 0),
        evidence=f"one of three is down; min.insync.replicas 3: {said}, 2: {other}",
    )


@trials.of("N26")
def what_failed_is_sent_again_from_a_file(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    down(subject, 3, 2)
    with tempfile.TemporaryFile("w+") as failed:
        producer = subject.producer(acks="all", retries=0)
        for number in range(10):
            producer.produce(
                topic,
                f"record-{number}",
                on_delivery=lambda error, message: (
                    print(message.value().decode(), file=failed) if error is not None else None
                ),
            )
        assert producer.flush(60) == 0
        subject.repair()
        subject.cluster.await_full_isr([(topic, 0)])
        failed.seek(0)
        written = failed.read().split()
        for value in written:
            producer.produce(topic, value)
        assert producer.flush(60) == 0
    read = {record.value() for record in records(subject.cluster, topic)}
    return Observed(
        holds=len(written) == len(read) == 10,
        evidence=f"{len(written)} of 10 sends refused and written to a file; sent again from it, "
        f"{len(read)} are read",
    )


@trials.of("N27")
def one_replica_more_than_min_isr_survives_a_death(subject: Subject) -> Observed:
    topic = subject.topic(replicas=[1, 2], min_insync_replicas=1)
    down(subject, 2)
    said = subject.send(topic)
    return Observed(
        holds=said == (0, 0), evidence=f"two replicas, min.insync.replicas 1, one down: {said}"
    )


@trials.of("N4")
def the_available_configuration_writes_where_the_consistent_one_does_not(
    subject: Subject,
) -> Observed:
    available, consistent = (subject.topic(min_insync_replicas=least) for least in (1, 2))
    down(subject, 3, 2)
    wrote, refused = subject.send(available), subject.send(consistent, **_ONCE)
    return Observed(
        holds=wrote == (0, 0) and refused == "NOT_ENOUGH_REPLICAS",
        evidence=f"two of three are down; min.insync.replicas 1: {wrote}, 2: {refused}",
    )


@trials.of("N6")
def one_producer_is_refused_for_some_partitions_only(subject: Subject) -> Observed:
    strict, lax = subject.topic(min_insync_replicas=3), subject.topic(min_insync_replicas=1)
    down(subject, 3)
    said: dict[str, str] = {}
    producer = subject.producer(**{"acks": "all", "retries": 0, "linger.ms": 200})
    for topic in (strict, lax):
        producer.produce(
            topic,
            b"x",
            on_delivery=lambda error, message: said.setdefault(
                message.topic(), "acked" if error is None else error.name()
            ),
        )
    producer.flush(60)
    return Observed(
        holds=(said[strict], said[lax]) == ("NOT_ENOUGH_REPLICAS", "acked"),
        evidence=f"two partitions of one leader: {said[strict]} and {said[lax]}",
    )


@trials.of("33")
def f_of_f_plus_1_replicas_may_crash(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    assert subject.send(topic) == (0, 0)
    for broker in (1, 2):
        node_actions.kill(subject.cluster, broker)
    leader = until(lambda: subject.cluster.interfaces.metadata.leader(topic, 0))
    subject.repair()
    read = records(subject.cluster, topic)
    return Observed(
        holds=len(read) == 1,
        evidence=f"two of three were killed, broker {leader} led; then {len(read)} of 1 record is "
        "read",
    )


@trials.of("32")
def the_next_leader_is_the_next_in_order(subject: Subject) -> Observed:
    topic = subject.topic(replicas=[1, 3, 2])
    node_actions.kill(subject.cluster, 1)
    leader = until(lambda: subject.cluster.interfaces.metadata.leader(topic, 0))
    return Observed(
        holds=leader == 3, evidence=f"replicas 1, 3, 2; 1 was killed, broker {leader} leads"
    )


@trials.of("11")
def who_is_out_of_sync_does_not_lead(subject: Subject) -> Observed:
    # Explicit, because the default was on before 0.11.
    topic = subject.topic(
        replicas=[1, 2], min_insync_replicas=1, unclean_leader_election_enable=False
    )
    down(subject, 2)
    assert subject.send(topic) == (0, 0)
    node_actions.kill(subject.cluster, 1)
    subject.cluster.nodes[2].start_again()
    until(lambda: 2 in subject.cluster.brokers_known_to(3), "broker 2 did not come back")
    time.sleep(3)
    leader = subject.cluster.interfaces.metadata.leader(topic, 0)
    return Observed(
        holds=leader is None,
        evidence=f"2 left the ISR, 1 wrote and was killed, 2 came back: leader {leader}",
    )


def _frozen(subject: Subject, *brokers: int) -> None:
    for broker in brokers:
        subject.cluster.nodes[broker].pause()


@trials.of("9")
def a_write_that_waits_when_the_isr_shrinks_is_refused_after_the_append(
    subject: Subject,
) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    assert subject.send(topic) == (0, 0)
    _frozen(subject, 2, 3)
    said = subject.send(topic, retries=0, within_s=60, **{"request.timeout.ms": 25000})
    subject.repair()
    end = until(lambda: (found := _end(subject, topic)) > 1 and found)
    return Observed(
        holds=said == "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        evidence=f"both followers frozen: {said}; thawed, the high watermark is {end}",
    )


@trials.of("18")
def a_write_does_not_wait_for_ever(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    guard = in_force(subject.cluster, IsolateReplication(target=1))
    began = time.monotonic()
    said = subject.send(topic, retries=0, within_s=60, **{"request.timeout.ms": 3000})
    waited = time.monotonic() - began
    recover(subject.cluster, guard)
    return Observed(
        holds=said in ("REQUEST_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT"),
        evidence=f"followers cut off, request.timeout.ms 3000: {said} after {waited:.1f} s",
    )


@trials.of("23")
def consumers_read_what_the_whole_isr_has(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=1)
    guard = in_force(subject.cluster, IsolateReplication(target=1))
    assert subject.send(topic, acks=1) == (0, 0)
    time.sleep(2)
    isr = sorted(subject.cluster.interfaces.metadata.isr(topic, 0) or ())
    before = _end(subject, topic)
    recover(subject.cluster, guard)
    after = until(lambda: _end(subject, topic))
    return Observed(
        holds=isr == [1, 2, 3] and (before, after) == (0, 1),
        evidence=f"a record that only the leader of the ISR {isr} has: high watermark {before}; "
        f"replicated: {after}",
    )


@trials.of("N16")
def an_isr_waits_for_its_slowest_member(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    producer = subject.producer(acks="all")
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    _frozen(subject, 3)
    producer.produce(topic, b"x")
    waiting = producer.flush(2)
    subject.cluster.nodes[3].resume()
    left = producer.flush(60)
    return Observed(
        holds=(waiting, left) == (1, 0),
        evidence=f"one follower of two frozen: after 2 s {waiting} send without an ack, thawed "
        f"{left}; min.insync.replicas is 2",
    )


@trials.of("N2", on=SINCE_0_11)
def a_leader_deposed_while_a_write_waits_says_so(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=2)
    assert subject.send(topic) == (0, 0)
    guard = in_force(subject.cluster, IsolateReplication(target=1))
    # librdkafka sends again after this error, whatever `retries` says: only its log tells.
    heard = _Heard()
    logger = logging.getLogger(topic)
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    producer = subject.producer(
        **{"acks": "all", "request.timeout.ms": 60000, "log_level": 7, "debug": "msg"},
        logger=logger,
    )
    producer.produce(topic, b"x")
    assert producer.flush(1) == 1  # it waits for the followers
    operations = subject.cluster.interfaces.operations
    operations.reassign({(topic, 0): (2, 3, 1)})
    until(lambda: tuple(subject.cluster.interfaces.metadata.replicas(topic, 0)) == (2, 3, 1))

    def elected() -> bool:
        try:
            operations.elect([(topic, 0)], unclean=False)
        except FaultError:  # refused until brokers know of it
            return subject.cluster.interfaces.metadata.leader(topic, 0) == 2
        return True

    until(elected, "broker 2 was not elected")
    left = producer.flush(70)
    recover(subject.cluster, guard)
    refusals = [line for line in heard.lines if "Not leader for partition" in line] or [""]
    return Observed(
        holds=left == 0 and refusals != [""],
        evidence="leadership moved from 1 to 2 while a write waited: "
        + (refusals[0].partition("encountered error: ")[2] or "no refusal was logged"),
    )


class _Heard(logging.Handler):
    """Keeps what a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
