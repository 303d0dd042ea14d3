"""The offsets topic loses committed offsets, and groups repeat or skip records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.assumption import When
from ackproof.audit.changes import Terms, decided_by
from ackproof.audit.consumers import without_offset
from ackproof.audit.effective import (
    OFFSETS,
    OFFSETS_TOPIC,
    of_consumer,
    of_offsets_topic,
    offsets_replicas,
)
from ackproof.audit.failure import OF_TOPICS, Failure, covers
from ackproof.audit.losses import KIND as LOSSES
from ackproof.audit.replication import losing, losing_sets, replication_of, waiting
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import MINIMUM, REPLICAS, UNCLEAN, Setup
from ackproof.audit.words import phrase
from ackproof.own_config.configuration import Given, Topic
from ackproof.safer_settings import BROKERS
from ackproof_model.configuration import Configuration
from ackproof_model.kafka_settings import ACKS, AUTO_OFFSET_RESET

#: Changes that protect every topic of the brokers.
_OF_LOSSES = {
    key: value for key, value in LOSSES.removed_by.items() if key not in (ACKS, REPLICAS, MINIMUM)
}
#: Settings that are those of the offsets topic, with their costs.
_TERMS = Terms(
    names={REPLICAS: OFFSETS},
    costs={
        BROKERS: f"more machines; then {OFFSETS} of as many",
        REPLICAS: "needs three brokers; counts only before the first group commits",
        UNCLEAN: f"of {OFFSETS_TOPIC}: groups cannot commit while no replica in sync is running",
        MINIMUM: f"of {OFFSETS_TOPIC}: groups cannot commit while fewer replicas are in sync",
    },
)
_TEXT = Text(
    case="B27",
    text="the offsets topic loses committed offsets, and groups {then}",
    at_risk="everything that the groups of that broker committed",
    trace=(
        "A group commits offsets, which only some replicas of __consumer_offsets have.",
        "{after}, and these offsets are gone.",
        "The group's members join again, find no offset, and {then}.",
    ),
)

KIND = Kind(
    title="the offsets topic loses committed offsets",
    subject=Subject.CONSUMERS,
    texts=dict.fromkeys((Effect.UNPROCESSED, Effect.REPROCESSED, Effect.READS_STOP), _TEXT),
    failures=OF_TOPICS,
    removed_by={OFFSETS: "3", MINIMUM: "2, of __consumer_offsets", **_OF_LOSSES},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield what groups repeat or skip, also if no consumer is known.

    Sets of several failures are reported only if followers lag in them, and if the topic itself
    loses no record by them with acks=all. If no file states the version, all such pairs are
    reported, so that no version looks better than another.
    """
    for replicas, assumed in offsets_replicas(setup):
        if offsets := _partition(setup, replicas):
            yield from _of_partition(setup, offsets, replicas, assumed)


def _of_partition(
    setup: Setup, offsets: Configuration, replicas: Given, assumed: When
) -> Iterator[Risk]:
    known, lost = losing_sets(waiting(replication_of(setup))), losing(setup, offsets)
    unknown_version = setup.own.kafka is None
    sets = [
        failures
        for failures in lost
        if len(failures) == 1
        or (
            Failure.LAG in failures
            and (
                (unknown_version and len(failures) == 2)
                or not any(covers(one, failures) for one in known)
            )
        )
    ]
    if not sets:
        return
    resets: dict[tuple[Effect, str], dict[str, str]] = {
        without_offset(of_consumer(setup, one, AUTO_OFFSET_RESET).value): {}
        for one in setup.consumers
    }
    resets = resets or {
        without_offset(one): {AUTO_OFFSET_RESET: one} for one in ("earliest", "latest")
    }
    for (effect, then), when in resets.items():
        for failures in sets:
            yield KIND.risk(
                setup,
                failures,
                effect,
                after=phrase(failures).capitalize(),
                then=then,
                when={**when, **assumed},
            )


def changes(setup: Setup, risk: Risk) -> Iterator[Decision]:
    """Yield the changes after which the offsets topic loses nothing by the failures of a risk."""
    for replicas, assumed in offsets_replicas(setup):
        offsets = _partition(setup, replicas)
        if offsets and assumed.items() <= risk.when.items():
            one = _as_setup(setup, offsets, replicas)
            yield from map(_of_offsets, decided_by([one], risk.failures, _TERMS))


def _as_setup(setup: Setup, offsets: Configuration, replicas: Given) -> Setup:
    """Return the setup of the offsets topic."""
    settings = {key: of_offsets_topic(setup, key) for key in (MINIMUM, UNCLEAN)}
    brokers = setup.partition.brokers
    enough = brokers is not None and brokers >= offsets.replication_factor
    return replace(
        setup,
        topic=Topic(name=OFFSETS_TOPIC),
        partition=replace(offsets, brokers=brokers if enough else None),
        settings={**settings, REPLICAS: replicas},
    )


def _of_offsets(one: Decision) -> Decision:
    """Return a change with the topic that it is for, unless it protects every topic."""
    names = {_TERMS.names.get(name, name) for name in _TERMS.costs}
    own = any(name in names for name, _ in ((one.setting, one.change), *one.others))
    return replace(one, topic=OFFSETS_TOPIC) if own else one


def _partition(setup: Setup, replicas: Given) -> Configuration | None:
    minimum = of_offsets_topic(setup, MINIMUM)
    if not (replicas.value.isdecimal() and minimum.value.isdecimal() and int(replicas.value)):
        return None
    return _of_settings(
        setup.partition,
        replicas=int(replicas.value),
        minimum=max(int(minimum.value), 1),
        unclean=of_offsets_topic(setup, UNCLEAN).value.lower() == "true",
    )


@cache
def _of_settings(
    topic: Configuration, *, replicas: int, minimum: int, unclean: bool
) -> Configuration:
    """Return a partition of the offsets topic beside one of a topic."""
    return replace(
        topic,
        acks="all",
        replication_factor=replicas,
        min_insync_replicas=minimum,
        unclean_leader_election=unclean,
        brokers=None,
    )
