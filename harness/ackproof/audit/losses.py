"""Finds which failures lose acked records, how, and which do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import LOG_LOST, Failure, Failures, covers
from ackproof.audit.replication import (
    failures_of,
    found_sets,
    question_of,
    with_rules_in_force,
)
from ackproof.audit.risk import Kind, Subject, Text, fewest_copies, runs_of
from ackproof.audit.setups import Setup
from ackproof.audit.words import phrase
from ackproof.safer_settings import BROKERS, STORAGE
from ackproof_model.configuration import Configuration, Truncation
from ackproof_model.kafka_settings import (
    ACKS,
    BROKER_RACK,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    LOG_FLUSH_INTERVAL_MESSAGES,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    TRANSACTIONAL_ID,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from ackproof_model.worst_case.failure_sets import (
    EVENTS,
    Loss,
)
from ackproof_model.worst_case.minima import Minimum, Question
from ackproof_model.worst_case.moves import MISSED_EPOCH, REMOVED_MEMBER, Way
from ackproof_model.worst_case.story import Story, story

#: The cases of losses that a search finds (`case_of`).
_CASES = tuple(
    f"B{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 31, 34, 53, 54, 56, 57)
)
#: The cases of losses by elections and moves that are rare.
_OF_WAYS: Mapping[Way | None, tuple[str, str]] = {
    MISSED_EPOCH: ("B56", "missed epoch"),
    REMOVED_MEMBER: ("B57", "removed replica"),
}

UNCLEAN_ELECTION = "unclean election"
#: The cause of a loss that is certain: the disk of the sole replica.
_SOLE = "no other copy"
#: The cases of losses by unclean elections.
_UNCLEAN = ("B4", "B11", "B54")

KIND = Kind(
    title="brokers lose what they have acked, by a search of the model",
    subject=Subject.LOSSES,
    texts={Effect.LOST: Text()},
    failures=tuple(map(Failure, EVENTS)),
    cases=_CASES,
    searched=True,
    by_brokers=True,
    removed_by={
        ACKS: "all",
        UNCLEAN_LEADER_ELECTION_ENABLE: "false",
        MIN_INSYNC_REPLICAS: "one less than the replicas, or as many",
        REPLICATION_FACTOR: "3",
        BROKERS: "3, if there are fewer",
        STORAGE: "a volume for the logs",
        ELIGIBLE_LEADER_REPLICAS_VERSION: "1",
        "kafka.version": "4.1 or later",
        BROKER_RACK: "a rack for each replica",
        LOG_FLUSH_INTERVAL_MESSAGES: "1",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The losses of one setup, the largest sets of failures that lose nothing, and the rest."""

    risks: tuple[Risk, ...]
    survives: tuple[Failures, ...]
    undecided: tuple[Failures, ...]


def lost(setup: Setup) -> Lost:
    """Return the losses, without traces and changes. A refused producer sends nothing."""
    if setup.refusal:
        return Lost(risks=(), survives=(), undecided=())
    found, in_force = found_sets(setup), with_rules_in_force(setup)
    return Lost(
        risks=tuple(_risk(setup, one, in_force) for one in found.losing),
        survives=tuple(map(failures_of, found.survived)),
        undecided=tuple(map(failures_of, found.undecided)),
    )


def _risk(setup: Setup, loss: Loss, in_force: Setup) -> Risk:
    failures = failures_of(loss.failures)
    case, cause = _OF_WAYS.get(loss.way, ("", ""))
    case = case or case_of(in_force, failures)
    cause = cause or (UNCLEAN_ELECTION if case in _UNCLEAN else _SOLE if loss.certain else "")
    return _loss(
        failures,
        certain=loss.certain,
        rare=loss.rare,
        case=case,
        cause=cause,
        replicas=setup.partition.replication_factor,
        # Copies do not protect a record that a removed or late replica takes with it.
        copies=None if loss.rare else fewest_copies(setup),
        kafka_version=setup.partition.kafka_version,
    )


@cache
def _loss(
    failures: Failures,
    *,
    certain: bool,
    rare: bool,
    case: str,
    cause: str,
    replicas: int,
    copies: int | None,
    kafka_version: str,
) -> Risk:
    """Return a loss, which the setups of all topics share."""
    verb = "are lost" if certain else "may be lost"
    return Risk(
        effect=Effect.LOST,
        likelihood="certain" if certain else "possible",
        failures=failures,
        case=case,
        text=f"{phrase(failures, replicas)}: acked records {verb}",
        copies=copies,
        runs=runs_of(case, Effect.LOST, kafka_version),
        rare=rare,
        cause=cause,
        kind=KIND,
    )


def traced(setup: Setup, known: Risk) -> Risk:
    """Return a loss of this setup with its trace, and with the records that are at risk."""
    failures = known.failures
    loss = next(one for one in found_sets(setup).losing if failures_of(one.failures) == failures)
    if loss.way:
        text = f"{known.text}: {loss.way.at_risk}"
        return replace(
            known, trace=loss.way.steps, at_risk=loss.way.at_risk, text=text, untraced=None
        )
    if loss.found is None:
        argument = tuple(_argument(setup, loss))
        return replace(known, trace=argument, at_risk=loss.at_risk, untraced=None)
    disks = failures.count(Failure.DISK_REPLACED)
    containers = sum(failure in setup.emptied for failure in failures)
    way = _story(question_of(setup), loss.found, disks, containers)
    text = f"{known.text}: {way.at_risk}"
    return replace(known, trace=way.sentences, at_risk=way.at_risk, text=text, untraced=None)


@cache
def _story(question: Question, found: Minimum, disks: int, containers: int) -> Story:
    return story(question, found, disks=disks, containers=containers)


def _argument(setup: Setup, loss: Loss) -> Iterator[str]:
    replicas = setup.partition.replication_factor
    if setup.partition.acks == "0":
        yield "The producer sends records and does not wait for an answer."
        failures = failures_of(loss.failures)
        yield f"{phrase(failures).capitalize()}: the connection or the leader ends."
        yield "What was sent and not yet appended is gone, and the producer reports no error."
        return
    if "lag" in loss.failures:
        yield "The followers leave the ISR; the leader acks alone, as min.insync.replicas=1 allows."
    else:
        yield f"All {replicas} replicas have the acked records, in part only in memory."
    yield f"{phrase(failures_of(loss.failures), replicas).capitalize()}: {loss.reason}."
    yield "The leader that is elected afterwards lacks these records: they are lost."


@cache
def largest_without(
    survives: tuple[Failures, ...], lost: tuple[Failures, ...]
) -> tuple[Failures, ...]:
    """Return the largest sets of failures within `survives` that contain none of `lost`."""
    if not lost:
        return survives
    kept: dict[Failures, None] = {}
    left = list(survives)
    while left:
        failures = left.pop(0)
        if any(covers(one, failures) for one in lost):
            left += [failures[:at] + failures[at + 1 :] for at in range(len(failures))]
        elif failures:
            kept[failures] = None
    return tuple(
        one for one in kept if not any(one != other and covers(one, other) for other in kept)
    )


def case_of(setup: Setup, failures: Sequence[Failure]) -> str:
    """Return the case of a loss of acked records; '' if the catalogue has none like it.

    setup: with the rules in force.
    """
    configuration = setup.partition
    emptied = not setup.emptied.isdisjoint(failures) or Failure.DISK_REPLACED in failures
    taken = emptied or not LOG_LOST.isdisjoint(failures)
    sole = configuration.replication_factor == 1 and taken
    if configuration.acks != "all" and not sole:
        if configuration.acks == "0":
            return "B1"
        planned = {
            Failure.LEADER_MOVE,
            Failure.CLEAN_RESTART,
            Failure.REASSIGNMENT,
        }.issuperset(failures)
        return "B3" if Failure.LOST_SESSION in failures else "B53" if planned else "B2"
    if taken:
        return _by_lost_log(configuration, failures, emptied=emptied)
    profile = configuration.profile
    if profile.truncation is Truncation.HIGH_WATERMARK:
        return "B10"
    if configuration.unclean_election:
        later = not profile.truncates_first
        return by_unclean_election(setup) if Failure.LAG in failures or later else "B11"
    return ""


def by_unclean_election(setup: Setup) -> str:
    """Return the case of an unclean election; with transactions also markers are lost."""
    transactional = setup.producer and TRANSACTIONAL_ID in setup.producer.settings
    return "B54" if transactional else "B4"


def _by_lost_log(
    configuration: Configuration, failures: Sequence[Failure], *, emptied: bool
) -> str:
    moved = {Failure.LEADER_MOVE, Failure.REASSIGNMENT}.intersection(failures)
    if moved and not configuration.profile.broker_epochs:
        return "B31"  # a replica that lost its log is in the ISR again
    return "B34" if emptied else _by_power_loss(configuration, failures)


def _by_power_loss(configuration: Configuration, failures: Sequence[Failure]) -> str:
    if Failure.RACK in failures or failures.count(Failure.POWER_LOSS) > 1:
        return "B9"
    if configuration.min_insync_replicas == 1 or configuration.replication_factor == 1:
        return "B5"
    if Failure.LAG in failures and not configuration.profile.elr:
        return "B6"
    return "B8" if configuration.profile.zookeeper else "B7"
