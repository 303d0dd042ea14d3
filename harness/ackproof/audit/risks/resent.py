"""Without idempotence, a request that is sent again may be written twice or out of order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import of_producer
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import (
    exactly_once,
    idempotence,
    one_in_flight,
    writes_topic_of_connect,
)
from ackproof.audit.risk import Kind, Subject, Text, decision, together
from ackproof.audit.setups import Setup
from ackproof_model import Likelihood
from ackproof_model.configuration import Configuration
from ackproof_model.kafka_settings import (
    ACKS,
    ENABLE_IDEMPOTENCE,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    RETRIES,
)
from ackproof_model.perturbations import WorstCase
from ackproof_model.worst_case.answer import resent

#: The failures after which a request may have to be sent again, with the event at a leader.
_UNANSWERED = {
    Failure.CLIENT_TIMEOUT: "The leader appends a batch, and its response is lost or late.",
    Failure.CRASH: "The leader appends a batch, and crashes before it responds.",
    Failure.CLEAN_RESTART: "The leader appends a batch, and restarts before it responds.",
    Failure.RECREATED: "The leader appends a batch, and its container ends before it responds.",
    Failure.LAG: "The leader appends a batch, and its followers do not fetch it in time.",
    Failure.LEADER_MOVE: "The leader appends a batch, and another replica becomes leader.",
    Failure.REASSIGNMENT: "The leader appends a batch, and its replica is moved to another broker.",
    Failure.LOST_SESSION: "The leader appends a batch, and loses its session before it responds.",
    Failure.POWER_LOSS: "The leader appends a batch, and loses power before it responds.",
    Failure.DISK_REPLACED: "The leader appends a batch, and loses its disk before it responds.",
    Failure.RACK: "The leader appends a batch, and its rack loses power before it responds.",
}
#: Those that an operator plans.
_PLANNED = (Failure.LEADER_MOVE, Failure.REASSIGNMENT)
#: A broker knows later than a producer may that it leads (NOT_LEADER_OR_FOLLOWER).
_REFUSED = "A replica becomes leader, and refuses a batch before it has learned that it leads."
_UNANSWERED_ONCE = WorstCase(unanswered=True)

KIND = Kind(
    title="a producer without idempotence sends again what got no response",
    subject=Subject.PRODUCER,
    texts={
        Effect.DUPLICATED: Text(
            case="B17",
            text="the producer sends again what got no response, and the leader writes it a "
            "second time",
            at_risk="records in flight at that moment",
            trace=(
                "{event}",
                "The producer sends it again.",
                "Without idempotence the leader writes it a second time.",
            ),
        ),
        Effect.REORDERED: Text(
            case="B18",
            text="of several requests in flight one fails and is sent again, behind the later ones",
            at_risk="records in flight at that moment",
            trace=(
                "{event}",
                "The batches behind it are written.",
                "It is sent again, and follows them in the log.",
            ),
        ),
    },
    failures=tuple(_UNANSWERED),
    removed_by={
        ENABLE_IDEMPOTENCE: "true",
        RETRIES: "0",
        MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: "1",
        "exactly.once.source.support": "enabled",
    },
)


def risks(setup: Setup) -> Iterator[Risk]:
    if setup.partition.idempotence:
        return
    for effect in KIND.effects:
        likelihood, _ = resent(setup.partition, _UNANSWERED_ONCE, effect.value)
        if likelihood is Likelihood.IMPOSSIBLE:
            continue
        remedies = [*_remedies(setup, effect)]
        for failure, event in _UNANSWERED.items():
            if _happens(setup, failure, effect):
                refused = failure in _PLANNED and effect is Effect.REORDERED
                what = _REFUSED if refused else event
                yield KIND.risk(setup, [failure], effect, decided_by=remedies, event=what)


def _happens(setup: Setup, failure: Failure, effect: Effect) -> bool:
    """Whether a failure may make the producer send again, with this effect.

    With acks=1 a leader answers at once, so that no request waits for followers. A planned election
    or a move then only refuses requests, which are not written twice but may be overtaken. A sole
    replica waits for the one that a move adds.
    """
    match failure:
        case Failure.LEADER_MOVE if effect is Effect.REORDERED:
            return setup.partition.replication_factor > 1
        case Failure.LAG | Failure.LEADER_MOVE:
            return _waits(setup.partition)
        case Failure.REASSIGNMENT if effect is Effect.DUPLICATED:
            return setup.partition.acks == "all"
        case Failure.RACK:
            return setup.racks > 0
        case Failure.RECREATED:
            return setup.recreates
    return True


def _waits(configuration: Configuration) -> bool:
    return configuration.acks == "all" and configuration.replication_factor > 1


def _remedies(setup: Setup, effect: Effect) -> Iterator[Decision]:
    partition, producer = setup.partition, setup.producer
    if producer is not None and writes_topic_of_connect(producer):
        yield from exactly_once(producer)
    elif partition.profile.transactions:
        given = of_producer(setup, ENABLE_IDEMPOTENCE, "false")
        needed = {} if partition.acks == "all" else {ACKS: "all"}
        needed |= {key: one for key, one in idempotence(setup).items() if key != ENABLE_IDEMPOTENCE}
        prefix = producer.prefix if producer else ""
        others = tuple((f"{prefix}{key}", one) for key, one in needed.items())
        cost = f"needs {together(others)}" if others else ""
        proposed = decision(ENABLE_IDEMPOTENCE, given, "true", cost, of=producer)
        yield replace(proposed, together_with=together(others), others=others)
    if effect is Effect.REORDERED:
        yield one_in_flight(setup)
    else:
        given = of_producer(setup, RETRIES, partition.retries)
        cost = "each failed send is left to the application"
        yield decision(RETRIES, given, 0, cost, of=producer)
