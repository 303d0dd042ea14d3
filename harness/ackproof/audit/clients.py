"""Effects of a producer's requests that are repeated or late: duplicates, order, transactions."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Decision, Effect, Failure, Risk
from ackproof.audit.effective import of_consumer, of_producer
from ackproof.audit.risk import decision, worded
from ackproof.audit.setups import Setup
from ackproof.kafka_versions import FEATURES_SINCE, numbers
from ackproof.own_config.configuration import Client, Default, Given
from ackproof.own_config.formats.connect import EXACTLY_ONCE
from ackproof.scenario.kafka_clients import TRANSACTION_TIMEOUT
from ackproof_model import Likelihood
from ackproof_model.configuration import Configuration
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    RETRIES,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTION_VERSION,
    TRANSACTIONAL_ID,
)
from ackproof_model.perturbations import WorstCase
from ackproof_model.worst_case.answer import resent

#: The failures after which a request may have no response, with the event at a leader.
_UNANSWERED = {
    Failure.CLIENT_TIMEOUT: "The leader appends a batch, and its response is lost or late.",
    Failure.CRASH: "The leader appends a batch, and crashes before it responds.",
    Failure.CLEAN_RESTART: "The leader appends a batch, and restarts before it responds.",
    Failure.LAG: "The leader appends a batch, and its followers do not fetch it in time.",
    Failure.LEADER_MOVE: "The leader appends a batch, and another replica becomes leader.",
    Failure.LOST_SESSION: "The leader appends a batch, and loses its session before it responds.",
}
_UNANSWERED_ONCE = WorstCase(unanswered=True)
#: With acks=1 a leader answers at once, so nothing waits for followers.
_WAITS_FOR_FOLLOWERS = (Failure.LAG, Failure.LEADER_MOVE)

_CONNECT, _COMMITTED = "Kafka Connect", "read_committed"


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the risks of duplicates, of changed order, and of late ends of transactions."""
    yield from _of_late_ends(setup)
    yield from _of_crashes(setup)
    if setup.partition.idempotence:
        yield from _of_new_epochs(setup)
        return
    for effect in (Effect.DUPLICATED, Effect.REORDERED):
        yield from _resent(setup, effect)


def _resent(setup: Setup, effect: Effect) -> Iterator[Risk]:
    likelihood, _ = resent(setup.partition, _UNANSWERED_ONCE, effect.value)
    if likelihood is Likelihood.IMPOSSIBLE:
        return
    for failure, event in _UNANSWERED.items():
        if failure in _WAITS_FOR_FOLLOWERS and not _waits(setup.partition):
            continue
        remedies = [*_remedies(setup, effect)]
        name = f"resent.{effect}"
        yield worded(setup, effect, [failure], name, decided_by=remedies, event=event)


def _waits(configuration: Configuration) -> bool:
    return configuration.acks == "all" and configuration.replication_factor > 1


def _remedies(setup: Setup, effect: Effect) -> Iterator[Decision]:
    partition, producer = setup.partition, setup.producer
    if producer is not None and _of_connect_itself(producer):
        yield from _exactly_once(producer)
    elif partition.profile.transactions:
        given = of_producer(setup, ENABLE_IDEMPOTENCE, "false")
        cost = "needs acks=all: a send waits for the in-sync replicas"
        cost = "" if partition.acks == "all" else cost
        yield decision(ENABLE_IDEMPOTENCE, given, "true", cost, of=producer)
    if effect is Effect.REORDERED:
        yield _one_in_flight(setup)
    else:
        given = of_producer(setup, RETRIES, partition.retries)
        cost = "each failed send is left to the application"
        yield decision(RETRIES, given, 0, cost, of=producer)


def _of_connect_itself(producer: Client) -> bool:
    """Whether Connect writes an internal topic of its own: it sets enable.idempotence itself."""
    return bool(producer.writes) and producer.framework == _CONNECT


def _exactly_once(producer: Client) -> Iterator[Decision]:
    """Yield the setting by which Connect's producers become transactional (KIP-618, KIP-710).

    That of the status topic never does; it does not retry.
    """
    retries = producer.settings.get(RETRIES)
    if _of_connect_itself(producer) and retries and retries.source == Default(_CONNECT):
        return
    mirror = producer.framework != _CONNECT
    cost = (
        f"{'MirrorMaker 2 of 3.5' if mirror else 'Connect 3.3'} or later; first preparing, then "
        "enabled; consumers with isolation.level=read_committed"
    )
    given = producer.exactly_once or Given("disabled", Default(_CONNECT))
    yield decision(EXACTLY_ONCE, given, "enabled", cost)


def _one_in_flight(setup: Setup) -> Decision:
    given = of_producer(setup, MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, setup.partition.max_in_flight)
    cost = "less throughput: each request waits for the response to the one before"
    return decision(MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, given, 1, cost, of=setup.producer)


def _of_late_ends(setup: Setup) -> Iterator[Risk]:
    """Yield the loss by a late abort, which transactions of protocol 1 allow (KAFKA-17754).

    Protocol 2 needs brokers and a Java client of 4.0 or later (KIP-890).
    """
    producer, version = setup.producer, setup.partition.kafka_version
    if producer is None or TRANSACTIONAL_ID not in producer.settings:
        return
    since = FEATURES_SINCE[TRANSACTION_VERSION]
    when = {}
    if producer.library == "java" and numbers(version) >= since:
        if producer.version is not None:
            if numbers(producer.release) >= since:
                return
        else:
            when = {"producer.version": "before 4.0"}
    client = of_producer(setup, TRANSACTIONAL_ID, "")
    yield worded(
        setup,
        Effect.LOST,
        [Failure.CLIENT_TIMEOUT],
        "late-abort",
        when=when,
        decided_by=[
            decision(
                TRANSACTION_VERSION,
                client,
                "2 (brokers and Java clients of 4.0 or later)",
                "an upgrade; librdkafka has no protocol 2",
            )
        ],
    )


def _of_crashes(setup: Setup) -> Iterator[Risk]:
    """Yield what readers see of a producer that ends between a send and its end.

    Idempotence covers one session of a producer (KIP-98), and a transaction stays open until
    `transaction.timeout.ms` or until a producer with its id starts.
    """
    producer = setup.producer
    if producer is None or setup.refusal:
        return
    crash = [Failure.CLIENT_CRASH]
    if TRANSACTIONAL_ID not in producer.settings:
        yield worded(
            setup,
            Effect.DUPLICATED,
            crash,
            "crash.repeats",
            when={"application": "sends again after a start"},
            decided_by=[*_transactions(setup, producer)],
        )
        return
    levels = {of_consumer(setup, one, ISOLATION_LEVEL): one for one in setup.consumers}
    if not levels or any(one.value == _COMMITTED for one in levels):
        limit = of_producer(setup, *TRANSACTION_TIMEOUT)
        yield worded(
            setup,
            Effect.READS_STOP,
            crash,
            "crash.blocks-readers",
            limit=limit.value,
            when={} if levels else {ISOLATION_LEVEL: _COMMITTED},
            decided_by=[
                decision(
                    TRANSACTION_TIMEOUT_MS,
                    limit,
                    10_000,
                    "longer transactions are aborted",
                    of=producer,
                )
            ],
        )
    for given, consumer in sorted(levels.items(), key=lambda one: str(one[0].source)):
        if given.value != _COMMITTED:
            yield worded(
                setup,
                Effect.REPROCESSED,
                crash,
                "crash.aborted-records",
                level=given.value,
                decided_by=[
                    decision(
                        ISOLATION_LEVEL,
                        given,
                        _COMMITTED,
                        "records are read after their transaction",
                        of=consumer,
                    )
                ],
            )


def _transactions(setup: Setup, producer: Client) -> Iterator[Decision]:
    if producer.framework in (_CONNECT, "MirrorMaker 2"):
        yield from _exactly_once(producer)
    else:
        yield decision(
            TRANSACTIONAL_ID,
            of_producer(setup, TRANSACTIONAL_ID, ""),
            "a name, with the position of the input in each transaction",
            "transactions, and consumers with isolation.level=read_committed",
            of=producer,
        )


def _of_new_epochs(setup: Setup) -> Iterator[Risk]:
    """Yield the duplicates of librdkafka's idempotent producer (docs/catalogue, B21).

    After a delivery timeout, and after a batch that is out of order, it begins a new producer
    epoch, in which it may write again what a leader already has. The Java client ends the batches
    in flight first, and keeps its epoch until then (`TransactionManager.maybeResolveSequences`).
    """
    producer, partition = setup.producer, setup.partition
    if (
        producer is None
        or producer.library != "librdkafka"
        or TRANSACTIONAL_ID in producer.settings
    ):
        return
    timeout = of_producer(setup, DELIVERY_TIMEOUT_MS, int(partition.delivery_timeout_s * 1000))
    yield worded(
        setup,
        Effect.DUPLICATED,
        [Failure.CLIENT_TIMEOUT],
        "new-epoch.timeout",
        timeout=timeout.value,
        decided_by=[
            decision(
                DELIVERY_TIMEOUT_MS,
                timeout,
                "longer than an outage",
                "a failed send is reported later",
                of=producer,
            )
        ],
    )
    several = setup.topic.partitions
    if partition.max_in_flight == 1 or (several is not None and several.value == "1"):
        return
    for failure in (Failure.CRASH, Failure.CLEAN_RESTART, Failure.LEADER_MOVE):
        yield worded(
            setup,
            Effect.DUPLICATED,
            [failure],
            "new-epoch.out-of-order",
            when={} if several is not None else {"partitions": "2 or more"},
            decided_by=[_one_in_flight(setup)],
        )
