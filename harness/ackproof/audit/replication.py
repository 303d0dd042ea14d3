"""The settings that decide which failures lose records, and the model's answers about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from ackproof.audit.failure import Failure, Failures
from ackproof.audit.setups import Setup
from ackproof.kafka_versions import LAST_WITH_ZOOKEEPER
from ackproof_model.configuration import Acks, Configuration, Profile
from ackproof_model.worst_case.answer import acks_nothing
from ackproof_model.worst_case.failure_sets import (
    Exposed,
    FailureSets,
    failure_sets,
    largest_sets,
)
from ackproof_model.worst_case.minima import Question, representative


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """The settings that decide which failures lose records; setups with equal ones lose alike.

    unclean, elr: as stated, None for the version's default. brokers: as in `Configuration`. racks,
    balanced, flushes_every_record, recreates, emptied: as in `Setup`. combined: the number of nodes
    with both roles, 0 for nodes with one.
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
    balanced: bool = False

    @property
    def never_acked(self) -> bool:
        return acks_nothing(
            self.kafka_version,
            acks=self.acks,
            replicas=self.replicas,
            minimum=self.min_insync_replicas,
        )


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
        balanced=setup.balanced,
    )


def found_sets(setup: Setup) -> FailureSets:
    return sets_of(replication_of(setup))


@cache
def sets_of(one: Replication) -> FailureSets:
    asked = exposed(one)
    if one.never_acked:
        return FailureSets(losing=(), survived=largest_sets(asked), undecided=())
    return failure_sets(asked)


@cache
def exposed(one: Replication) -> Exposed:
    """Return the inputs that decide about losses; those with the same rules share one object."""
    return _exposed(
        representative(rules_of(one)),
        acks_0=one.acks == "0",
        acks_1=one.acks == "1",
        # Three replicas are the fewest of which a leader may miss an epoch.
        balanced=one.balanced and one.replicas > 2,
        movable=one.brokers is None or one.brokers > one.replicas,
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
    acks_1: bool,
    balanced: bool,
    movable: bool,
    flushed: bool,
    racks: int,
    combined: int,
    recreates: bool,
    emptied: frozenset[Failure],
) -> Exposed:
    return Exposed(
        question=question,
        acks_0=acks_0,
        acks_1=acks_1,
        balanced=balanced,
        movable=movable,
        flushed=flushed,
        racks=racks,
        combined=combined,
        recreates=recreates,
        emptied=frozenset(map(str, emptied)),
    )


def question_of(setup: Setup) -> Question:
    """Return the rules of a setup; in ZooKeeper mode those of the last version that has it."""
    return rules_of(replication_of(setup))


def with_rules_in_force(setup: Setup) -> Setup:
    """Return the setup with the version whose rules apply; ZooKeeper mode may change it."""
    if not setup.zookeeper:
        return setup
    question = question_of(setup)
    partition = replace(setup.partition, kafka_version=question.kafka_version, elr=question.elr)
    return replace(setup, partition=partition)


@cache
def rules_of(one: Replication) -> Question:
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


@cache
def waiting(one: Replication) -> Replication:
    """Return the settings with a producer that waits for the replicas in sync."""
    return replace(one, acks="all")


def losing(setup: Setup, partition: Configuration) -> tuple[Failures, ...]:
    """Return the smallest losing sets of another partition of the same cluster; no rare ones."""
    return losing_sets(replication_of(setup, partition))


@cache
def losing_sets(one: Replication) -> tuple[Failures, ...]:
    return tuple(failures_of(loss.failures) for loss in sets_of(one).losing if not loss.rare)


@cache
def failures_of(names: tuple[str, ...]) -> Failures:
    return tuple(map(Failure, names))
