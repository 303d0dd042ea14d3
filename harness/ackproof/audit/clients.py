"""Effects of a producer's requests that are repeated or late: duplicates, order, transactions."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Decision, Effect, Failure, Risk
from ackproof.audit.effective import of_consumer, of_producer
from ackproof.audit.risk import decision, risk
from ackproof.audit.setup import Setup
from ackproof.kafka_versions import FEATURES_SINCE, numbers
from ackproof.own_config.clients import EXACTLY_ONCE
from ackproof.own_config.configuration import Client, Given
from ackproof_model import Likelihood
from ackproof_model.bounds.answer import resent
from ackproof_model.configuration import Configuration
from ackproof_model.exposure import Exposure

#: The failures after which a request may have no response, with the event at a leader.
_UNANSWERED = {
    Failure.CLIENT_TIMEOUT: "The leader appends a batch, and its response is lost or late.",
    Failure.CRASH: "The leader appends a batch, and crashes before it responds.",
    Failure.CLEAN_RESTART: "The leader appends a batch, and restarts before it responds.",
    Failure.LAG: "The leader appends a batch, and its followers do not fetch it in time.",
    Failure.LEADER_MOVE: "The leader appends a batch, and another replica becomes leader.",
    Failure.LOST_SESSION: "The leader appends a batch, and loses its session before it responds.",
}
_UNANSWERED_ONCE = Exposure(unanswered=True)
#: With acks=1 a leader answers at once, so nothing waits for followers.
_WAITS_FOR_FOLLOWERS = (Failure.LAG, Failure.LEADER_MOVE)

_IDEMPOTENCE = "enable.idempotence"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_RETRIES = "retries"
_TRANSACTIONAL = "transactional.id"
_CONNECT = "Kafka Connect"
_ISOLATION, _COMMITTED = "isolation.level", "read_committed"


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
    duplicated = effect is Effect.DUPLICATED
    text = (
        "the producer sends again what got no response, and the leader writes it a second time"
        if duplicated
        else "of several requests in flight one fails and is sent again, behind the later ones"
    )
    end = (
        "The producer sends it again. Without idempotence the leader writes it a second time."
        if duplicated
        else "The batches behind it are written. It is sent again, and follows them in the log."
    )
    likelihood, _ = resent(setup.partition, _UNANSWERED_ONCE, effect.value)
    if likelihood is Likelihood.IMPOSSIBLE:
        return
    for failure, event in _UNANSWERED.items():
        if failure in _WAITS_FOR_FOLLOWERS and not _waits(setup.partition):
            continue
        yield risk(
            setup,
            effect,
            [failure],
            text,
            case="B17" if duplicated else "B18",
            at_risk="records in flight at that moment",
            trace=[event, *(f"{sentence.removesuffix('.')}." for sentence in end.split(". "))],
            decided_by=[*_remedies(setup, effect)],
        )


def _waits(configuration: Configuration) -> bool:
    return configuration.acks == "all" and configuration.replication_factor > 1


def _remedies(setup: Setup, effect: Effect) -> Iterator[Decision]:
    partition, producer = setup.partition, setup.producer
    if producer is not None and _of_connect_itself(producer):
        yield from _exactly_once(producer)
    elif partition.profile.transactions:
        given = of_producer(setup, _IDEMPOTENCE, "false")
        cost = "needs acks=all: a send waits for the in-sync replicas"
        name = f"{producer.prefix if producer else ''}{_IDEMPOTENCE}"
        yield decision(name, given, "true", "" if partition.acks == "all" else cost)
    if effect is Effect.REORDERED:
        yield _one_in_flight(setup)
    else:
        given = of_producer(setup, _RETRIES, partition.retries)
        yield decision(_RETRIES, given, 0, "each failed send is left to the application")


def _of_connect_itself(producer: Client) -> bool:
    """Whether Connect writes an internal topic of its own: it sets enable.idempotence itself."""
    return bool(producer.writes) and producer.framework == _CONNECT


def _exactly_once(producer: Client) -> Iterator[Decision]:
    """Yield the setting by which Connect's producers become transactional (KIP-618, KIP-710).

    That of the status topic never does; it does not retry.
    """
    retries = producer.settings.get(_RETRIES)
    if _of_connect_itself(producer) and retries and retries.source == f"default of {_CONNECT}":
        return
    mirror = producer.framework != _CONNECT
    cost = (
        f"{'MirrorMaker 2 of 3.5' if mirror else 'Connect 3.3'} or later; first preparing, then "
        "enabled; consumers with isolation.level=read_committed"
    )
    given = producer.exactly_once or Given("disabled", f"default of {_CONNECT}")
    yield decision(EXACTLY_ONCE, given, "enabled", cost)


def _one_in_flight(setup: Setup) -> Decision:
    given = of_producer(setup, _IN_FLIGHT, setup.partition.max_in_flight)
    cost = "less throughput: each request waits for the response to the one before"
    return decision(_IN_FLIGHT, given, 1, cost)


def _of_late_ends(setup: Setup) -> Iterator[Risk]:
    """Yield the loss by a late abort, which transactions of protocol 1 allow (KAFKA-17754).

    Protocol 2 needs brokers and a Java client of 4.0 or later (KIP-890).
    """
    producer, version = setup.producer, setup.partition.kafka_version
    if producer is None or _TRANSACTIONAL not in producer.settings:
        return
    since = FEATURES_SINCE["transaction.version"]
    when = {}
    if producer.library == "java" and numbers(version) >= since:
        if producer.version is not None:
            if numbers(producer.version.value) >= since:
                return
        else:
            when = {"producer.version": "before 4.0"}
    client = of_producer(setup, _TRANSACTIONAL, "")
    yield risk(
        setup,
        Effect.LOST,
        [Failure.CLIENT_TIMEOUT],
        "a late request that aborts one transaction aborts the beginning of the next, which then "
        "commits (KAFKA-17754)",
        when=when,
        case="B13",
        at_risk="the first records of a committed transaction",
        trace=[
            "A request that aborts a transaction is delayed; the producer repeats it after a "
            "timeout.",
            "The producer begins the next transaction, with the same epoch, and sends records.",
            "The delayed request arrives and aborts them; the producer sends more, and commits.",
        ],
        decided_by=[
            decision(
                "transaction.version",
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
    begun = "The producer sends records, and its process ends before it has all responses."
    if _TRANSACTIONAL not in producer.settings:
        yield risk(
            setup,
            Effect.DUPLICATED,
            crash,
            "after a crash it cannot know which of its last sends were written",
            when={"application": "sends again after a start"},
            at_risk="sends without a response at that moment",
            trace=[begun, "It starts again, and sends them again as a new producer."],
            decided_by=[*_transactions(setup, producer)],
        )
        return
    levels = {of_consumer(setup, one, _ISOLATION) for one in setup.consumers}
    if not levels or any(one.value == _COMMITTED for one in levels):
        limit = of_producer(setup, "transaction.timeout.ms", 60_000)
        yield risk(
            setup,
            Effect.READS_STOP,
            crash,
            f"consumers with {_ISOLATION}={_COMMITTED} wait for the open transaction of a producer "
            f"that has crashed, up to transaction.timeout.ms={limit.value}",
            when={} if levels else {_ISOLATION: _COMMITTED},
            at_risk="nothing that was acked",
            trace=[begun, "Its transaction is open; the last stable offset does not advance."],
            decided_by=[
                decision("transaction.timeout.ms", limit, 10_000, "longer transactions are aborted")
            ],
        )
    for given in sorted(levels, key=lambda one: one.source):
        if given.value != _COMMITTED:
            yield risk(
                setup,
                Effect.REPROCESSED,
                crash,
                f"consumers with {_ISOLATION}={given.value} process records of a transaction that "
                "is aborted, and process them again when the application repeats it",
                at_risk="records of aborted transactions",
                trace=[
                    begun,
                    "A consumer processes them; the transaction is aborted and repeated.",
                ],
                decided_by=[
                    decision(
                        _ISOLATION, given, _COMMITTED, "records are read after their transaction"
                    )
                ],
            )


def _transactions(setup: Setup, producer: Client) -> Iterator[Decision]:
    if producer.framework in (_CONNECT, "MirrorMaker 2"):
        yield from _exactly_once(producer)
    else:
        yield decision(
            _TRANSACTIONAL,
            of_producer(setup, _TRANSACTIONAL, ""),
            "a name, with the position of the input in each transaction",
            "transactions, and consumers with isolation.level=read_committed",
        )


def _of_new_epochs(setup: Setup) -> Iterator[Risk]:
    """Yield the duplicates of librdkafka's idempotent producer (docs/catalogue, B21).

    After a delivery timeout, and after a batch that is out of order, it begins a new producer
    epoch, in which it may write again what a leader already has. The Java client ends the batches
    in flight first, and keeps its epoch until then (`TransactionManager.maybeResolveSequences`).
    """
    producer, partition = setup.producer, setup.partition
    if producer is None or producer.library != "librdkafka" or _TRANSACTIONAL in producer.settings:
        return
    timeout = of_producer(setup, "delivery.timeout.ms", int(partition.delivery_timeout_s * 1000))
    yield risk(
        setup,
        Effect.DUPLICATED,
        [Failure.CLIENT_TIMEOUT],
        "librdkafka begins a new producer epoch after sends have timed out, and writes again what "
        "the leader already has; these records were reported as failed, none of them as acked",
        case="B21",
        at_risk=f"records whose send exceeds delivery.timeout.ms={timeout.value}",
        trace=[
            "The leader appends batches, and no response arrives within the delivery timeout.",
            "Sends fail with a timeout, and the producer begins a new epoch.",
            "It sends again what has not timed out yet; the leader does not recognise it.",
        ],
        decided_by=[
            decision(
                "delivery.timeout.ms",
                timeout,
                "longer than an outage",
                "a failed send is reported later",
            )
        ],
    )
    several = setup.topic.partitions
    if partition.max_in_flight == 1 or (several is not None and several.value == "1"):
        return
    for failure in (Failure.CRASH, Failure.CLEAN_RESTART, Failure.LEADER_MOVE):
        yield risk(
            setup,
            Effect.DUPLICATED,
            [failure],
            "after an out-of-order batch of one partition librdkafka begins a new producer epoch, "
            "and may write again a batch of another partition; rare (librdkafka 4953)",
            when={} if several is not None else {"partitions": "2 or more"},
            at_risk="batches in flight at that moment",
            trace=[
                "Partitions get other leaders while several batches are in flight.",
                "A leader refuses a batch as out of order, since the one before it is not written.",
                "The producer begins a new epoch for all partitions, and sends again a batch that "
                "another leader has written and not acked.",
            ],
            decided_by=[_one_in_flight(setup)],
        )
