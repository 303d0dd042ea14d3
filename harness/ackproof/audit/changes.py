"""The least changes of settings that remove a loss, each tried with the model, and its price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from ackproof.audit.answer import Decision
from ackproof.audit.failure import Failures
from ackproof.audit.losses import exposed, found_sets, question_of
from ackproof.audit.risk import decision
from ackproof.audit.setups import ELR, KAFKA, MINIMUM, MODE, REPLICAS, UNCLEAN, Setup, eras_of
from ackproof.audit.words import spelled
from ackproof.kafka_versions import FEATURES_SINCE, WITH_ELR, numbers
from ackproof.own_config.configuration import Given, NoFile, kafka_default
from ackproof_model.kafka_settings import ACKS, BROKER_RACK, LOG_FLUSH_INTERVAL_MESSAGES
from ackproof_model.worst_case.answer import never_acked
from ackproof_model.worst_case.failure_sets import Exposed, failure_sets

#: The version that stands for those with eligible leader replicas by default.
_NEWEST = eras_of("")[-1].release
_USUAL_REPLICAS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new value of a setting. applied: the setup with it. cost: its price in words.

    costly: the price is so high that other changes, and pairs of them, are proposed first.
    """

    setting: str
    value: str
    cost: str
    applied: Callable[[Setup], Setup]
    costly: bool = False

    @property
    def name(self) -> tuple[str, str]:
        return self.setting, self.value


def candidates(setup: Setup) -> Iterator[Change]:
    """Yield the changes that may make a setup safer, those that cost less first."""
    partition = setup.partition
    replicas, minimum = partition.replication_factor, partition.min_insync_replicas
    if partition.acks != "all":
        yield Change(
            setting=ACKS,
            value="all",
            cost="each send waits until all replicas in the ISR have it",
            applied=partial(_with, values={ACKS: "all"}, acks="all"),
        )
    if question_of(setup).unclean:
        yield Change(
            setting=UNCLEAN,
            value="false",
            cost="while all replicas that were in the ISR are down, the partition can neither be "
            "written nor read",
            applied=partial(_with, values={UNCLEAN: "false"}, unclean_leader_election=False),
        )
    if minimum < replicas - 1:
        yield _minimum(replicas, replicas - 1)
    if replicas < _USUAL_REPLICAS:
        yield Change(
            setting=REPLICAS,
            value=str(_USUAL_REPLICAS),
            cost=f"{spelled(_USUAL_REPLICAS)} copies of the data, on as many brokers",
            applied=partial(
                _with, values={REPLICAS: str(_USUAL_REPLICAS)}, replication_factor=_USUAL_REPLICAS
            ),
        )
    yield from _elr(setup)
    if setup.racks and setup.racks < replicas:
        yield Change(
            setting=BROKER_RACK,
            value=f"{spelled(replicas)} racks",
            cost="traffic between racks",
            applied=lambda one: replace(one, racks=one.partition.replication_factor),
        )
    if not setup.flushes_every_record:
        yield Change(
            setting=LOG_FLUSH_INTERVAL_MESSAGES,
            value="1",
            cost="every send waits for the disks: far fewer records per second",
            applied=lambda one: replace(
                _with(one, values={LOG_FLUSH_INTERVAL_MESSAGES: "1"}), flushes_every_record=True
            ),
            costly=True,
        )
    if replicas > 1 and minimum < replicas:
        yield _minimum(replicas, replicas)


def _minimum(replicas: int, minimum: int) -> Change:
    away = replicas - minimum + 1
    number, of = spelled(away), spelled(replicas)
    return Change(
        setting=MINIMUM,
        value=str(minimum),
        cost=f"while {number} of {of} replicas {'is' if away == 1 else 'are'} away, sends with "
        "acks=all are refused",
        applied=lambda one: (
            one
            if one.partition.replication_factor < minimum
            else _with(one, values={MINIMUM: str(minimum)}, min_insync_replicas=minimum)
        ),
        costly=away == 1,
    )


def _elr(setup: Setup) -> Iterator[Change]:
    """Yield the change that switches eligible leader replicas on (KIP-966)."""
    if setup.partition.profile.elr and not setup.zookeeper:
        return
    cost = "switch it on afterwards: kafka-features upgrade --feature " + ELR + "=1"
    if _has_feature(setup.partition.kafka_version):
        yield Change(
            setting=ELR,
            value="1",
            cost="a cluster-wide feature: kafka-features upgrade --feature " + ELR + "=1",
            applied=partial(_with, values={ELR: "1"}, elr=True, kafka_version=_NEWEST),
        )
        return
    yield Change(
        setting=KAFKA,
        value=WITH_ELR.label,
        cost=f"an upgrade{' from ZooKeeper to KRaft' if setup.zookeeper else ''}; {cost}",
        applied=lambda one: replace(
            _with(
                one, values={KAFKA: WITH_ELR.label, MODE: "kraft"}, kafka_version=_NEWEST, elr=None
            ),
            zookeeper=False,
        ),
    )


@cache
def _has_feature(kafka_version: str) -> bool:
    """Whether the version knows eligible leader replicas."""
    return numbers(kafka_version) >= FEATURES_SINCE[ELR]


def _with(setup: Setup, *, values: dict[str, str], **fields: object) -> Setup:
    partition = setup.partition
    brokers = partition.brokers
    replicas = fields.get("replication_factor", partition.replication_factor)
    if brokers is not None and isinstance(replicas, int) and brokers < replicas:
        fields["brokers"] = None
    given = {key: Given(value, NoFile.CHANGED) for key, value in values.items()}
    return replace(
        setup,
        partition=replace(partition, **fields),  # type: ignore[arg-type]
        when={key: value for key, value in setup.when.items() if key not in values},
        settings={**setup.settings, **given},
    )


def decided_by(setup: Setup, failures: Failures) -> tuple[Decision, ...]:
    """Return the least changes that remove a loss, best first; empty if none does.

    Each removes it alone, but for pairs, which name each other in their costs. Pairs are tried if
    no change that can be afforded removes it alone.
    """
    changes = [(one, one.applied(setup)) for one in candidates(setup)]
    alone = [one for one, after in changes if found_sets(after).keeps(failures)]
    decisions = [_decision(setup, one) for one in alone if not one.costly]
    if not decisions:
        for one, two, _ in _pairs(setup, lambda after: found_sets(after).keeps(failures)):
            decisions += [_decision(setup, one, two), _decision(setup, two, one)]
    decisions += [_decision(setup, one) for one in alone if one.costly]
    return tuple(dict.fromkeys(decisions))


def _pairs(
    setup: Setup, suffices: Callable[[Setup], bool]
) -> Iterator[tuple[Change, Change, Setup]]:
    """Yield pairs of changes that can be afforded, with the setup after both."""
    first = [one for one in candidates(setup) if not one.costly]
    for at, one in enumerate(first):
        tried = {other.setting for other in first[: at + 1]}
        changed = one.applied(setup)
        for two in candidates(changed):
            if two.setting not in tried and not two.costly:
                after = two.applied(changed)
                if suffices(after):
                    yield one, two, after


def _decision(setup: Setup, change: Change, other: Change | None = None) -> Decision:
    """Return the decision for a change; a change that needs another one names it."""
    given = setup.settings.get(change.setting) or _present(setup, change.setting)
    together = f"only together with {other.setting}={other.value}" if other else ""
    return decision(
        change.setting,
        replace(given, source=NoFile.UNSTATED) if given.source is NoFile.ASSUMED else given,
        change.value,
        "; ".join(filter(None, (change.cost, together))),
        of=setup.producer if change.setting == ACKS else None,
    )


def _present(setup: Setup, setting: str) -> Given:
    """Return the value of a setting that no file states."""
    version = setup.own.kafka
    if setting == KAFKA:
        return version or Given(str(setup.when.get(KAFKA, "")), NoFile.ASSUMED)
    if setting == BROKER_RACK:
        sources = sorted((given.source for given in setup.own.racks.values()), key=str)
        return Given(f"{spelled(setup.racks)} racks", sources[0] if sources else NoFile.ASSUMED)
    if setting in setup.when:
        return Given(str(setup.when[setting]), NoFile.ASSUMED)
    default = kafka_default(setup.partition.kafka_version)
    values = {LOG_FLUSH_INTERVAL_MESSAGES: "9223372036854775807", ELR: "0"}
    return Given(values.get(setting, ""), default if setting in values else NoFile.ASSUMED)


def best(setups: Sequence[Setup], *, most: int = 3) -> Iterator[tuple[Decision, tuple[Setup, ...]]]:
    """Yield the change after which fewest failures lose, with the setups after it, then the next.

    Where no single change helps, two that help together follow each other.
    """
    now = tuple(setups)
    while most > 0 and now:
        few = _alike((one, 1) for one in now)
        plans = [*_plans(few)]
        weighed = [(len(plan), weight, at) for at, (plan, weight) in enumerate(plans)]
        least = _weight(few)
        chosen = min((one for one in weighed if one[1] < least), default=None)
        if chosen is None:
            return
        for change in plans[chosen[2]][0]:
            of = (one for one in reversed(now) if change.name in {c.name for c in candidates(one)})
            proposed = _decision(next(of, now[-1]), change)
            now = tuple(change.applied(one) for one in now)
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
            partition.brokers,
            bool(never_acked(partition)),
            _has_feature(partition.kafka_version),
            one.zookeeper,
        )
        first.setdefault(key, one)
        numbers[key] += number
    return [(one, numbers[key]) for key, one in first.items()]


def _plans(setups: _Alike) -> Iterator[tuple[tuple[Change, ...], tuple[int, ...]]]:
    """Yield a change with the weight after it, or with each second one if it does not help."""
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
    return _alike((change.applied(one), number) for one, number in setups)


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
