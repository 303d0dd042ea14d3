"""Claims about transactions."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from integration.claims.subject import KRAFT, SINCE_0_11, Observed, Subject, Trials
from integration.sending import log_end
from waiting import until

trials: Trials[Subject] = Trials()


def _begun(subject: Subject, identity: str, **settings: object) -> Producer:
    producer = subject.producer(**{"transactional.id": identity, **settings})
    producer.init_transactions(90)
    producer.begin_transaction()
    return producer


def _identity() -> str:
    return f"x-{uuid4().hex[:8]}"


def _stable(subject: Subject, topic: str) -> int:
    """Return the last stable offset."""
    key = TopicPartition(topic, 0)
    answers = subject.cluster.admin.client().list_offsets(
        {key: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    return int(answers[key].result(60).offset)


def _committed(subject: Subject, topic: str) -> list[tuple[int, bytes | None]]:
    """Return offsets and values that a read_committed consumer reads up to the log's end."""
    end = log_end(subject.cluster, topic)[0]
    consumer = Consumer(
        {
            "bootstrap.servers": subject.cluster.bootstrap_servers,
            "group.id": "claims",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes | None]] = []

    def at_the_end() -> bool:
        for message in consumer.consume(1000, timeout=0.5):
            assert message.error() is None, message.error()
            found.append((message.offset() or 0, message.value()))
        return consumer.position([TopicPartition(topic, 0)])[0].offset >= end

    until(at_the_end, f"{topic} cannot be read up to {end}")
    consumer.close()
    return found


@trials.of("52", on=SINCE_0_11)
def the_last_stable_offset_is_that_of_the_first_open_transaction(subject: Subject) -> Observed:
    topic = subject.topic()
    assert subject.send(topic) == (0, 0)
    producer = _begun(subject, _identity())
    producer.produce(topic, b"open")
    assert producer.flush(60) == 0
    assert subject.send(topic) == (0, 2)
    during, end = _stable(subject, topic), log_end(subject.cluster, topic)[0]
    producer.commit_transaction(60)
    after = until(lambda: (found := _stable(subject, topic)) > 1 and found)
    return Observed(
        holds=(during, end, after) == (1, 3, 4),
        evidence=f"a transaction is open from offset 1 on: last stable offset {during}, high "
        f"watermark {end}; committed: {after}",
    )


@trials.of("N33", on=SINCE_0_11)
def markers_are_not_given_to_applications(subject: Subject) -> Observed:
    topic = subject.topic()
    producer = _begun(subject, _identity())
    for value in (b"one", b"two"):
        producer.produce(topic, value)
        producer.commit_transaction(60)
        producer.begin_transaction()
    producer.abort_transaction(60)
    end = until(lambda: (found := log_end(subject.cluster, topic)[0]) > 3 and found)
    read = _committed(subject, topic)
    return Observed(
        holds=[value for _, value in read] == [b"one", b"two"] and end == 4,
        evidence=f"two transactions of one record each: {len(read)} records read, at offsets "
        f"{[offset for offset, _ in read]}; the log ends at {end}",
    )


@trials.of("56", on=SINCE_0_11)
def the_same_transactional_id_fences_and_aborts(subject: Subject) -> Observed:
    topic, identity = subject.topic(), _identity()
    first = _begun(subject, identity)
    first.produce(topic, b"first")
    assert first.flush(60) == 0
    second = _begun(subject, identity)
    second.produce(topic, b"second")
    second.commit_transaction(60)
    try:
        first.commit_transaction(60)
        said = "committed"
    except KafkaException as error:
        said = error.args[0].name()
    read = [value for _, value in _committed(subject, topic)]
    return Observed(
        holds=said in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
        and read == [b"second"],
        evidence=f"the first producer's commit: {said}; read_committed reads {read}",
    )


@trials.of("58", on=SINCE_0_11)
def a_fenced_producer_can_abort(subject: Subject) -> Observed:
    topic, identity = subject.topic(), _identity()
    first = _begun(subject, identity)
    first.produce(topic, b"first")
    assert first.flush(60) == 0
    _begun(subject, identity)
    try:
        first.abort_transaction(60)
        said = "aborted"
    except KafkaException as error:
        said = error.args[0].name()
    return Observed(holds=said == "aborted", evidence=f"abort after being fenced: {said}")


@trials.of("N34", on=SINCE_0_11)
def a_transaction_survives_its_coordinator(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=1)
    producer = _begun(subject, _identity())
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    # transaction.state.log.num.partitions is 1 here.
    state = ("__transaction_state", 0)
    coordinator = subject.cluster.interfaces.metadata.leader(*state)
    assert coordinator is not None
    subject.cluster.nodes[coordinator].kill()
    producer.commit_transaction(90)
    successor = subject.cluster.interfaces.metadata.leader(*state)
    subject.repair()
    read = _committed(subject, topic)
    return Observed(
        holds=len(read) == 1 and successor != coordinator,
        evidence=f"coordinator {coordinator} was killed with the transaction open; committed by "
        f"{successor}; {len(read)} of 1 record is read",
    )


@trials.of("N37", on=SINCE_0_11)
def only_the_client_ends_a_transaction(subject: Subject) -> Observed:
    topic = subject.topic()
    producer = _begun(subject, _identity(), **{"transaction.timeout.ms": 5000})
    producer.produce(topic, b"x")
    assert producer.flush(60) == 0
    end = until(lambda: (found := _stable(subject, topic)) > 1 and found)
    read = _committed(subject, topic)
    return Observed(
        holds=False,
        evidence=f"transaction.timeout.ms 5000: the coordinator ended it, last stable offset "
        f"{end}, {len(read)} records read",
    )


@trials.of("N29", on=KRAFT)
def an_idempotent_producer_sends_nothing_without_a_producer_id(subject: Subject) -> Observed:
    topic = subject.topic(min_insync_replicas=1)
    assert subject.send(topic) == (0, 0)
    # Brokers that started anew have no block of producer ids left, and ask the controllers.
    (controller,) = subject.cluster.controller_ids()
    for broker in subject.cluster.broker_ids():
        subject.cluster.nodes[broker].kill()
        subject.cluster.nodes[broker].start_again()
    subject.repair()
    subject.cluster.await_full_isr([(topic, 0)])
    subject.cluster.nodes[controller].pause()
    said = subject.send(topic, within_s=8, **{"enable.idempotence": True})
    plain = subject.send(topic, acks=1, within_s=8)
    subject.cluster.nodes[controller].resume()
    return Observed(
        holds=said == "_MSG_TIMED_OUT" and isinstance(plain, tuple),
        evidence=f"controller frozen; idempotent: {said}; not idempotent: {plain}",
    )
