"""Finds which failures lose acked records, how, and which do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import LOG_LOST, Failure, Failures, covers
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import Setup
from ackproof.audit.words import phrase
from ackproof.kafka_versions import LAST_WITH_ZOOKEEPER
from ackproof.safer_settings import BROKERS, STORAGE
from ackproof_model.configuration import Acks, Configuration, Profile, Truncation
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
from ackproof_model.worst_case.answer import acks_nothing
from ackproof_model.worst_case.failure_sets import (
    EVENTS,
    Exposed,
    FailureSets,
    Loss,
    failure_sets,
    largest_sets,
)
from ackproof_model.worst_case.minima import Minimum, Question, representative
from ackproof_model.worst_case.story import Story, story

#: The cases of losses that a search finds (`case_of`).
_CASES = tuple(f"B{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 31, 34, 53, 54))

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
    found = found_sets(setup)
    return Lost(
        risks=tuple(_risk(setup, one) for one in found.losing),
        survives=tuple(map(failures_of, found.survived)),
        undecided=tuple(map(failures_of, found.undecided)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """The settings that decide which failures lose records; setups with equal ones lose alike.

    unclean, elr: as stated, None for the version's default. brokers: as in `Configuration`. racks,
    flushes_every_record, recreates, emptied: as in `Setup`. combined: the number of nodes with both
    roles, 0 for nodes with one.
    """

    kafka_version: str
    zookeeper: bool
    elr: bool | None
    acks: Acks
    replicas: int
    min_insync_replicas: int
    unclean: bool | None
    brokers: int | None
    racks: int
    flushes_every_record: bool
    combined: int
    recreates: bool = False
    emptied: frozenset[Failure] = frozenset()


def replication_of(setup: Setup, partition: Configuration | None = None) -> Replication:
    """Return the settings of a setup. partition: another partition of the same cluster."""
    partition = partition or setup.partition
    return Replication(
        kafka_version=partition.kafka_version,
        zookeeper=setup.zookeeper,
        elr=partition.elr,
        acks=partition.acks,
        replicas=partition.replication_factor,
        min_insync_replicas=partition.min_insync_replicas,
        unclean=partition.unclean_leader_election,
        brokers=partition.brokers,
        racks=setup.racks,
        flushes_every_record=setup.flushes_every_record,
        combined=setup.own.combined.value if setup.combined and setup.own.combined else 0,
        recreates=setup.recreates,
        emptied=setup.emptied,
    )


def found_sets(setup: Setup) -> FailureSets:
    return sets_of(replication_of(setup))


@cache
def sets_of(one: Replication) -> FailureSets:
    asked = exposed(one)
    if acks_nothing(
        one.kafka_version, acks=one.acks, replicas=one.replicas, minimum=one.min_insync_replicas
    ):
        return FailureSets(losing=(), survived=largest_sets(asked), undecided=())
    return failure_sets(asked)


@cache
def exposed(one: Replication) -> Exposed:
    """Return the inputs that decide about losses; those with the same rules share one object."""
    return _exposed(
        representative(question(one)),
        acks_0=one.acks == "0",
        # A power loss ends a container, too.
        flushed=one.flushes_every_record and Failure.CRASH not in one.emptied,
        racks=one.racks,
        combined=one.combined,
        recreates=one.recreates,
        emptied=one.emptied,
    )


@cache
def _exposed(
    question: Question,
    *,
    acks_0: bool,
    flushed: bool,
    racks: int,
    combined: int,
    recreates: bool,
    emptied: frozenset[Failure],
) -> Exposed:
    return Exposed(
        question=question,
        acks_0=acks_0,
        flushed=flushed,
        racks=racks,
        combined=combined,
        recreates=recreates,
        emptied=frozenset(map(str, emptied)),
    )


def question_of(setup: Setup) -> Question:
    """Return the rules of a setup; in ZooKeeper mode those of the last version that has it."""
    return question(replication_of(setup))


def with_rules_in_force(setup: Setup) -> Setup:
    """Return the setup with the version whose rules apply; ZooKeeper mode may change it."""
    if not setup.zookeeper:
        return setup
    question = question_of(setup)
    partition = replace(setup.partition, kafka_version=question.kafka_version, elr=question.elr)
    return replace(setup, partition=partition)


@cache
def question(one: Replication) -> Question:
    """Return the rules that apply; in ZooKeeper mode those of the last version that has it."""
    version = one.kafka_version
    on = Profile.of(version).elr if one.elr is None else one.elr
    if one.zookeeper and not Profile.of(version).zookeeper:
        version = LAST_WITH_ZOOKEEPER
    return Question(
        kafka_version=version,
        elr=on and not one.zookeeper,
        # A sole replica acks alone in any case, and is elected in any case.
        acks="all" if one.acks == "all" or one.replicas == 1 else "1",
        replicas=one.replicas,
        min_insync_replicas=min(one.min_insync_replicas, one.replicas),
        unclean=one.replicas > 1 and Profile.of(version).elects_uncleanly(one.unclean),
    )


def losing(setup: Setup, partition: Configuration) -> tuple[Failures, ...]:
    """Return the smallest losing sets of another partition of the same cluster."""
    return losing_sets(replication_of(setup, partition))


@cache
def losing_sets(one: Replication) -> tuple[Failures, ...]:
    return tuple(failures_of(loss.failures) for loss in sets_of(one).losing)


@cache
def failures_of(names: tuple[str, ...]) -> Failures:
    return tuple(map(Failure, names))


def _risk(setup: Setup, loss: Loss) -> Risk:
    failures = failures_of(loss.failures)
    verb = "are lost" if loss.certain else "may be lost"
    text = f"{phrase(failures, setup.partition.replication_factor)}: acked records {verb}"
    case = case_of(setup, failures)
    cause = UNCLEAN_ELECTION if case in _UNCLEAN else _SOLE if loss.certain else ""
    return KIND.risk(setup, failures, text=text, certain=loss.certain, case=case, cause=cause)


def traced(setup: Setup, known: Risk) -> Risk:
    """Return a loss of this setup with its trace, and with the records that are at risk."""
    failures = known.failures
    loss = next(one for one in found_sets(setup).losing if failures_of(one.failures) == failures)
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
    """Return the case of a loss of acked records; '' if the catalogue has none like it."""
    configuration = with_rules_in_force(setup).partition
    emptied = not setup.emptied.isdisjoint(failures) or Failure.DISK_REPLACED in failures
    taken = emptied or not LOG_LOST.isdisjoint(failures)
    sole = configuration.replication_factor == 1 and taken
    if configuration.acks != "all" and not sole:
        if configuration.acks == "0":
            return "B1"
        planned = {Failure.LEADER_MOVE, Failure.CLEAN_RESTART}.issuperset(failures)
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
    if Failure.LEADER_MOVE in failures and not configuration.profile.broker_epochs:
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
