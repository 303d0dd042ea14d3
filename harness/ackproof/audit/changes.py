"""The smallest changes of settings that remove a loss, tried with the model, with their prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from ackproof import safer_settings
from ackproof.audit.answer import Decision
from ackproof.audit.failure import Failures, covers
from ackproof.audit.losses import exposed, failures_of, found_sets, question_of
from ackproof.audit.risk import decision
from ackproof.audit.setups import ELR, KAFKA, MINIMUM, MODE, REPLICAS, UNCLEAN, Setup, eras_of
from ackproof.own_config.configuration import Count, Given, NoFile, kafka_default
from ackproof.safer_settings import BROKERS, Change, Protection, knows_elr, spelled
from ackproof_model.kafka_settings import (
    ACKS,
    BROKER_RACK,
    LOG_FLUSH_INTERVAL_MESSAGES,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
)
from ackproof_model.worst_case.answer import never_acked
from ackproof_model.worst_case.failure_sets import Exposed, FailureSets, failure_sets

#: The version that stands for those with eligible leader replicas by default.
_NEWEST = eras_of("")[-1].release


def candidates(setup: Setup) -> Iterator[Change]:
    """Yield the changes that may make a setup safer, those that cost less first."""
    partition = setup.partition
    return safer_settings.candidates(
        Protection(
            kafka=partition.kafka_version,
            acks=partition.acks,
            replicas=partition.replication_factor,
            min_insync_replicas=partition.min_insync_replicas,
            unclean=question_of(setup).unclean,
            zookeeper=setup.zookeeper,
            elr=partition.profile.elr,
            racks=setup.racks,
            flushes_every_record=setup.flushes_every_record,
            brokers=partition.brokers,
        )
    )


def applied(setup: Setup, change: Change) -> Setup:
    """Return the setup with a change."""
    setting, value = change.name
    if setting == KAFKA:
        values = {KAFKA: value, MODE: "kraft"}
        upgraded = _with(setup, values=values, kafka_version=_NEWEST, elr=None)
        own = replace(setup.own, mode=Given("kraft", NoFile.CHANGED))
        return replace(upgraded, own=own, zookeeper=False)
    if setting == BROKERS:
        more = _with(
            setup, values={REPLICAS: value}, replication_factor=int(value), brokers=int(value)
        )
        offsets = {OFFSETS_TOPIC_REPLICATION_FACTOR: Given(value, NoFile.CHANGED)}
        own = replace(
            setup.own,
            brokers=Count(int(value), NoFile.CHANGED),
            broker={**setup.own.broker, **offsets},
            combined=None,
        )
        return replace(more, own=own, combined=False)
    if setting == BROKER_RACK:
        return replace(setup, racks=setup.partition.replication_factor)
    if setting == MINIMUM and setup.partition.replication_factor < int(value):
        return setup
    fields: dict[str, dict[str, object]] = {
        ACKS: {"acks": value},
        UNCLEAN: {"unclean_leader_election": False},
        MINIMUM: {"min_insync_replicas": int(value) if setting == MINIMUM else 0},
        REPLICAS: {"replication_factor": int(value) if setting == REPLICAS else 0},
        ELR: {"elr": True, "kafka_version": _NEWEST},
        LOG_FLUSH_INTERVAL_MESSAGES: {},
    }
    changed = _with(setup, values={setting: value}, **fields[setting])
    if setting == LOG_FLUSH_INTERVAL_MESSAGES:
        return replace(changed, flushes_every_record=True)
    return changed


def _with(setup: Setup, *, values: dict[str, str], **fields: object) -> Setup:
    partition = setup.partition
    brokers = partition.brokers
    replicas = fields.get("replication_factor", partition.replication_factor)
    if (
        "brokers" not in fields
        and brokers is not None
        and isinstance(replicas, int)
        and brokers < replicas
    ):
        fields["brokers"] = None
    given = {key: Given(value, NoFile.CHANGED) for key, value in values.items()}
    return replace(
        setup,
        partition=replace(partition, **fields),  # type: ignore[arg-type]
        when={key: value for key, value in setup.when.items() if key not in values},
        settings={**setup.settings, **given},
    )


def decided_by(setup: Setup, failures: Failures) -> tuple[Decision, ...]:
    """Return the smallest changes that remove a loss, the best first; empty if there is none.

    Each change removes the loss alone. If no affordable change does, pairs of changes are tried;
    the cost of each then names the other.
    """
    return decided_by_each(setup, [failures])[failures]


def decided_by_each(setup: Setup, sets: Iterable[Failures]) -> dict[Failures, tuple[Decision, ...]]:
    """Return `decided_by` of several sets of failures; each change is tried once."""
    changes = [
        (one, after)
        for one in candidates(setup)
        if not _adds_losses(after := found_sets(applied(setup, one)), found_sets(setup))
    ]
    pairs: list[tuple[Change, Change, FailureSets]] | None = None
    decisions: dict[Failures, tuple[Decision, ...]] = {}
    for failures in sets:
        alone = [one for one, after in changes if after.keeps(failures)]
        best_of = [_decision(setup, one) for one in alone if not one.costly]
        if not best_of:
            pairs = [*_pairs(setup)] if pairs is None else pairs
            for one, two, after in pairs:
                if after.keeps(failures):
                    best_of += [_decision(setup, one, two), _decision(setup, two, one)]
        best_of += [_decision(setup, one) for one in alone if one.costly]
        decisions[failures] = tuple(dict.fromkeys(best_of))
    return decisions


@cache
def _adds_losses(after: FailureSets, before: FailureSets) -> bool:
    """Whether some failures lose that did not lose before."""
    known = [failures_of(one.failures) for one in before.losing]
    return not all(
        any(covers(one, failures_of(loss.failures)) for one in known) for loss in after.losing
    )


def _pairs(setup: Setup) -> Iterator[tuple[Change, Change, FailureSets]]:
    """Yield pairs of changes that can be afforded, with the answer after both."""
    first = [one for one in candidates(setup) if not one.costly]
    for at, one in enumerate(first):
        tried = {other.setting for other in first[: at + 1]}
        changed = applied(setup, one)
        for two in candidates(changed):
            if two.setting not in tried and not two.costly:
                yield one, two, found_sets(applied(changed, two))


def _decision(setup: Setup, change: Change, other: Change | None = None) -> Decision:
    """Return the decision for a change; its cost names the other change if it needs one."""
    given = setup.settings.get(change.setting) or _present(setup, change.setting)
    second = f"{other.setting}={other.value}" if other else ""
    together = f"only together with {second}" if other else ""
    proposed = decision(
        change.setting,
        replace(given, source=NoFile.UNSTATED) if given.source is NoFile.ASSUMED else given,
        change.value,
        "; ".join(filter(None, (change.cost, together))),
        of=setup.producer if change.setting == ACKS else None,
    )
    return replace(proposed, together_with=second)


def _present(setup: Setup, setting: str) -> Given:
    """Return the value of a setting that no file states."""
    version = setup.own.kafka
    if setting == KAFKA:
        return version or Given(str(setup.when.get(KAFKA, "")), NoFile.ASSUMED)
    if setting == BROKERS and setup.own.brokers:
        return Given(str(setup.own.brokers.value), setup.own.brokers.source)
    if setting == BROKER_RACK:
        sources = sorted((given.source for given in setup.own.racks.values()), key=str)
        return Given(f"{spelled(setup.racks)} racks", sources[0] if sources else NoFile.ASSUMED)
    if setting in setup.when:
        return Given(str(setup.when[setting]), NoFile.ASSUMED)
    default = kafka_default(setup.partition.kafka_version)
    values = {LOG_FLUSH_INTERVAL_MESSAGES: "9223372036854775807", ELR: "0"}
    return Given(values.get(setting, ""), default if setting in values else NoFile.ASSUMED)


def _never(after: Setup, before: Setup) -> bool:
    return False


def best(
    setups: Sequence[Setup], *, most: int = 3, loses_more: Callable[[Setup, Setup], bool] = _never
) -> Iterator[tuple[Decision, tuple[Setup, ...]]]:
    """Yield the change after which the fewest failures lose, with its setups, then the next.

    If no single change helps, two changes that help together are yielded one after the other. No
    change is proposed after which a setup loses more than before it (`loses_more`).
    """
    now = tuple(setups)
    while most > 0 and now:
        few = _alike((one, 1) for one in now)
        plans = [*_plans(few)]
        least = _weight(few)
        weighed = [(len(plan), weight, at) for at, (plan, weight) in enumerate(plans)]
        better = (plans[at][0] for _, weight, at in sorted(weighed) if weight < least)
        chosen = next((plan for plan in better if not _harms(few, plan, loses_more)), None)
        if chosen is None:
            return
        for change in chosen:
            of = (one for one in reversed(now) if change.name in {c.name for c in candidates(one)})
            proposed = _decision(next(of, now[-1]), change)
            now = tuple(applied(one, change) for one in now)
            most -= 1
            yield proposed, now


#: A setup for all those that lose alike before and after a change, and their number.
_Alike = Sequence[tuple[Setup, int]]


def _alike(setups: Iterable[tuple[Setup, int]]) -> _Alike:
    numbers = Counter[object]()
    first: dict[object, Setup] = {}
    for one, number in setups:
        partition = one.partition
        key = (
            exposed(one),
            partition.acks,
            partition.min_insync_replicas,
            partition.unclean_leader_election,
            partition.elr,
            partition.profile.stale_fetch,
            partition.brokers,
            bool(never_acked(partition)),
            knows_elr(partition.kafka_version),
            one.zookeeper,
        )
        first.setdefault(key, one)
        numbers[key] += number
    return [(one, numbers[key]) for key, one in first.items()]


def _plans(setups: _Alike) -> Iterator[tuple[tuple[Change, ...], tuple[int, ...]]]:
    """Yield a change with the weight after it; if it does not help alone, pairs with another."""
    least = _weight(setups)
    for change in _shared(setups):
        after = _changed(setups, change)
        if (weight := _weight(after)) < least:
            yield (change,), weight
        else:
            for other in _shared(after):
                yield (change, other), _weight(_changed(after, other))


def _shared(setups: _Alike) -> Iterable[Change]:
    """Return the changes of all setups, once each, that can be afforded."""
    shared: dict[tuple[str, str], Change] = {}
    for setup, _ in setups:
        for change in candidates(setup):
            if not change.costly:
                shared.setdefault(change.name, change)
    return shared.values()


def _changed(setups: _Alike, change: Change) -> _Alike:
    return _alike((applied(one, change), number) for one, number in setups)


def _harms(
    setups: _Alike, plan: Sequence[Change], loses_more: Callable[[Setup, Setup], bool]
) -> bool:
    """Whether a setup loses more after one of the changes than before it."""
    before = [setup for setup, _ in setups]
    for change in plan:
        after = [applied(one, change) for one in before]
        if any(loses_more(now, then) for now, then in zip(after, before, strict=True)):
            return True
        before = after
    return False


def _weight(setups: _Alike) -> tuple[int, ...]:
    """Return how many sets of one failure, of two, … lose or may lose, over all setups."""
    sizes = Counter[int]()
    for setup, count in setups:
        if not never_acked(setup.partition):
            for size, number in _sizes(exposed(setup)).items():
                sizes[size] += number * count
    return tuple(sizes[number] for number in range(1, 6))


@cache
def _sizes(one: Exposed) -> Counter[int]:
    found = failure_sets(one)
    return Counter([*(len(one.failures) for one in found.losing), *map(len, found.undecided)])
