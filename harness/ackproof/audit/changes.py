"""The smallest changes of settings that remove a loss, tried with the model, with their prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from ackproof import safer_settings
from ackproof.audit.answer import Decision, Effect
from ackproof.audit.change_effects import (
    Plan,
    after_all,
    after_change,
    different,
    possible,
    rules_alike,
)
from ackproof.audit.effective import (
    unstated,
)
from ackproof.audit.failure import Failure, Failures, covers, how_rare
from ackproof.audit.producers import producers
from ackproof.audit.remedies import idempotence
from ackproof.audit.replication import (
    Replication,
    failures_of,
    replication_of,
    rules_of,
    sets_of,
)
from ackproof.audit.risk import decision, together
from ackproof.audit.setups import (
    ELR,
    KAFKA,
    MODE,
    REPLICAS,
    Setup,
    hidden,
)
from ackproof.own_config.configuration import (
    Count,
    Given,
    NoFile,
    OwnConfig,
    kafka_default,
)
from ackproof.safer_settings import BROKERS, STORAGE, Change, Protection, spelled
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    ACKS,
    AUTO_LEADER_REBALANCE_ENABLE,
    BROKER_RACK,
    LOG_FLUSH_INTERVAL_MESSAGES,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
)
from ackproof_model.worst_case.failure_sets import FailureSets

#: How many changes are proposed together.
_MOST_TOGETHER = 3


def candidates(setup: Setup) -> tuple[Change, ...]:
    """Return the changes that may make a setup safer, those that cost less first."""
    return _candidates(replication_of(setup))


@cache
def _candidates(one: Replication) -> tuple[Change, ...]:
    elr = Profile.of(one.kafka_version).elr if one.elr is None else one.elr
    return tuple(
        safer_settings.candidates(
            Protection(
                kafka=one.kafka_version,
                acks=one.acks,
                replicas=one.replicas,
                min_insync_replicas=one.min_insync_replicas,
                unclean=rules_of(one).unclean,
                zookeeper=one.zookeeper,
                elr=elr,
                racks=one.racks,
                balanced=one.balanced and one.replicas > 2,
                flushes_every_record=one.flushes_every_record,
                brokers=one.brokers,
                without_volume=bool(one.emptied),
            )
        )
    )


def applied(setup: Setup, change: Change) -> Setup:
    """Return the setup with a change; the same one if it cannot be made."""
    before = replication_of(setup)
    if not possible(before, change):
        return setup
    after = after_change(before, change)
    setting, value = change.name
    values = {
        KAFKA: {KAFKA: value, MODE: "kraft"},
        BROKERS: {REPLICAS: value},
        BROKER_RACK: {},
    }.get(setting, {setting: value})
    given = {key: Given(new, NoFile.CHANGED) for key, new in values.items()}
    return replace(
        setup,
        own=_described(setup.own, change),
        partition=replace(
            setup.partition,
            kafka_version=after.kafka_version,
            elr=after.elr,
            acks=after.acks,
            replication_factor=after.replicas,
            min_insync_replicas=after.min_insync_replicas,
            unclean_leader_election=after.unclean,
            brokers=after.brokers,
        ),
        when={key: old for key, old in setup.when.items() if key not in values},
        settings={**setup.settings, **given},
        zookeeper=after.zookeeper,
        combined=after.combined > 0,
        racks=after.racks,
        balanced=after.balanced,
        flushes_every_record=after.flushes_every_record,
        emptied=after.emptied,
    )


def _described(own: OwnConfig, change: Change) -> OwnConfig:
    """Return the files' content with a change of the whole cluster."""
    setting, value = change.name
    if setting == KAFKA:
        return replace(own, mode=Given("kraft", NoFile.CHANGED))
    if setting == BROKERS:
        offsets = {OFFSETS_TOPIC_REPLICATION_FACTOR: Given(value, NoFile.CHANGED)}
        return replace(
            own,
            brokers=Count(int(value), NoFile.CHANGED),
            broker={**own.broker, **offsets},
            combined=None,
        )
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What changes are called and cost where a topic is not the answer's.

    names: other names of settings. costs: other prices, by setting.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, str] = field(default_factory=dict)


_PLAIN = Terms()


def decided_by(
    setups: Sequence[Setup], failures: Failures, terms: Terms = _PLAIN
) -> tuple[Decision, ...]:
    """Return the smallest changes that remove a loss, the best first; empty if there is none.

    setups: all those that lose by these failures. Each change removes the loss in all of them, and
    no further failures lose after it. If no affordable change does, several together are proposed;
    each then names the others.
    """
    every = different(reversed(setups))
    plans = _removing(every, failures)
    return tuple(dict.fromkeys(_decision(setups, *plan, terms=terms) for plan in plans))


@cache
def _removing(every: tuple[Replication, ...], failures: Failures) -> tuple[Plan, ...]:
    """Return the changes that remove a loss."""
    offered = _offered(every)
    singles = [(one,) for one in offered if _removes((one,), every, failures)]
    found: list[Plan] = [plan for plan in singles if not plan[0].costly]
    if not found:
        plans = [*_further([()], every)]
        while not found and plans and len(plans[0]) < _MOST_TOGETHER:
            plans = [*_further(plans, every)]
            for plan in plans:
                if _removes(plan, every, failures):
                    found += [(one, *(other for other in plan if other != one)) for one in plan]
    return (*found, *(plan for plan in singles if plan[0].costly))


@cache
def _offered(every: tuple[Replication, ...]) -> tuple[Change, ...]:
    """Return the changes of all settings, once each."""
    offered: dict[tuple[str, str], Change] = {}
    for one in every:
        for change in _candidates(one):
            offered.setdefault(change.name, change)
    return tuple(offered.values())


def _further(plans: Sequence[Plan], every: tuple[Replication, ...]) -> Iterator[Plan]:
    """Yield these plans with each other change that can be afforded, in one order each."""
    order = {one.setting: -at for at, one in enumerate(reversed(_offered(every)))}
    for plan in plans:
        settings = [one.setting for one in plan]
        after = tuple(dict.fromkeys(after_all(one, plan) for one in every))
        for other in _offered(after):
            at = order.get(other.setting, 1)
            later = not plan or at > order.get(settings[-1], 1)
            if later and not other.costly and other.setting not in settings:
                yield (*plan, other)


def _removes(plan: Plan, every: Sequence[Replication], failures: Failures) -> bool:
    """Whether nothing is lost by these failures after some changes, and no others lose.

    A loss that is not rare is also removed if only rare ones are left. It is not removed where no
    send is acked any more.
    """
    for one in every:
        changed = after_all(one, plan)
        if changed.never_acked and not one.never_acked:
            return False
        before, after = sets_of(one), sets_of(changed)
        left = after.rarely_loses(failures) and not before.rarely_loses(failures)
        if not (left or after.keeps(failures)) or _adds_losses(after, before):
            return False
    return True


@cache
def _adds_losses(after: FailureSets, before: FailureSets) -> bool:
    """Whether some failures lose that did not lose before; rare losses do not count."""
    known = [failures_of(one.failures) for one in before.losing]
    return not all(
        any(covers(one, failures_of(loss.failures)) for one in known)
        for loss in after.losing
        if not loss.rare
    )


def _decision(
    setups: Sequence[Setup], change: Change, *others: Change, terms: Terms = _PLAIN
) -> Decision:
    """Return the decision for a change. others: those that must be made, too."""
    before = {replication_of(one): one for one in setups}  # the last one of each
    changed = [
        setup
        for one, setup in before.items()
        if after_change(after_all(one, others), change) != after_all(one, others)
    ]
    setup = changed[-1] if changed else setups[-1]
    setting, value = _named(setup, change)
    given = _present(setup, change.setting)
    prefix = setup.producer.prefix if setup.producer else ""
    needed = [
        (f"{prefix * (one.setting == ACKS)}{terms.names.get(name, name)}", new)
        for one in others
        for name, new in [_named(setup, one)]
    ]
    prices = [terms.costs[one.setting] for one in others if one.setting in terms.costs]
    plain = next((one for one in reversed(setups) if _sends_again(one, (change, *others))), None)
    beside = idempotence(plain) if plain else {}
    once = [(f"{prefix}{name}", new) for name, new in beside.items()]
    parts = [
        terms.costs.get(change.setting, change.cost),
        f"only together with {together(needed)}" if needed else "",
        *prices,
        f"with {together(once)}, so that no send is written twice" if once else "",
        "a send without an answer may be written twice" if plain and not once else "",
    ]
    proposed = decision(
        terms.names.get(setting, setting),
        replace(given, source=NoFile.UNSTATED) if given.source is NoFile.ASSUMED else given,
        value,
        "; ".join(filter(None, parts)),
        of=setup.producer if change.setting == ACKS else None,
    )
    return replace(
        proposed,
        together_with=together((*needed, *once)),
        others=(*needed, *once),
        stops=tuple(map(Effect, change.stops)),
    )


def _sends_again(setup: Setup, plan: Plan) -> bool:
    """Whether a producer that is not idempotent waits for followers only after some changes.

    Then a send has no answer in more cases: a follower lags, or the leader moves. A sole replica
    waits for the one that a move adds.
    """
    before = replication_of(setup)
    after = after_all(before, plan)
    more = _waited_for(after) > _waited_for(before)
    partition, client = setup.partition, setup.producer
    if not more or hidden(setup.topic) or partition.idempotence or not partition.retries:
        return False
    if client is None:
        return True
    settings = {**client.settings, ACKS: Given("all", NoFile.CHANGED)}
    waiting = producers(replace(client, settings=settings), partition.kafka_version)
    return any(not one.idempotence for one in waiting)


def _waited_for(one: Replication) -> int:
    """Return for how many replicas an ack may wait, at most two."""
    return min(one.replicas, 2) if one.acks == "all" else 0


def _named(setup: Setup, change: Change) -> tuple[str, str]:
    """Return the setting and the new value of a change; for a volume those of its file."""
    storage = setup.own.storage
    of_storage = change.setting == STORAGE and storage is not None
    return (storage.setting, storage.change) if storage and of_storage else change.name


def _present(setup: Setup, setting: str) -> Given:
    """Return the present value of a setting."""
    version, storage = setup.own.kafka, setup.own.storage
    of_storage = Given(storage.value, storage.source) if storage and setting == STORAGE else None
    if given := of_storage or setup.settings.get(setting):
        return given
    if setting == KAFKA:
        return version or Given(str(setup.when.get(KAFKA, "")), NoFile.ASSUMED)
    if setting == BROKERS and setup.own.brokers:
        return Given(str(setup.own.brokers.value), setup.own.brokers.source)
    if setting == BROKER_RACK:
        sources = sorted((given.source for given in setup.own.racks.values()), key=str)
        number = f"{spelled(setup.racks)} rack{'s' * (setup.racks != 1)}"
        return Given(number, sources[0] if sources else NoFile.ASSUMED)
    if setting in setup.when:
        return unstated(setup, setting)
    default = kafka_default(setup.partition.kafka_version)
    values = {
        AUTO_LEADER_REBALANCE_ENABLE: "true",
        LOG_FLUSH_INTERVAL_MESSAGES: "9223372036854775807",
        ELR: "0",
    }
    return Given(values.get(setting, ""), default if setting in values else NoFile.ASSUMED)


def best(
    setups: Sequence[Setup], *, most: int = 3, loses_more: Callable[[Setup, Setup], bool]
) -> Iterator[tuple[Decision, tuple[Setup, ...]]]:
    """Yield the change after which the fewest failures lose, with its setups, then the next.

    If no single change helps, two changes that help together are yielded one after the other. No
    change is proposed after which a setup loses more than before it (`loses_more`).
    """
    now = tuple(setups)
    while most > 0 and now:
        of = {rules_alike(replication_of(one)): one for one in reversed(now)}
        few = _alike((replication_of(one), 1) for one in now)
        plans = [*_plans(few)]
        least = _weight(few)
        weighed = [(len(plan), weight, at) for at, (plan, weight) in enumerate(plans)]
        better = (plans[at][0] for _, weight, at in sorted(weighed) if weight < least)
        distinct = [*of.values()]
        chosen = next((plan for plan in better if not _harms(distinct, plan, loses_more)), None)
        if chosen is None:
            return
        for change in chosen:
            having = [one for one in now if _offers(one, change)]
            proposed = _decision(having or now[-1:], change)
            now = tuple(applied(one, change) for one in now)
            most -= 1
            yield proposed, now


def _offers(setup: Setup, change: Change) -> bool:
    return any(change.name == one.name for one in candidates(setup))


#: Settings for all those that lose alike before and after a change, and their number.
_Alike = Sequence[tuple[Replication, int]]


def _alike(every: Iterable[tuple[Replication, int]]) -> _Alike:
    numbers = Counter[object]()
    first: dict[object, Replication] = {}
    for one, number in every:
        key = rules_alike(one)
        first.setdefault(key, one)
        numbers[key] += number
    return [(one, numbers[key]) for key, one in first.items()]


def _plans(every: _Alike) -> Iterator[tuple[tuple[Change, ...], tuple[int, ...]]]:
    """Yield a change with the weight after it; if it does not help alone, pairs with another.

    A change after which no send is acked any more does not help.
    """
    least, acked = _weight(every), _acked(every)
    for change in _shared(every):
        after = _changed(every, change)
        if (weight := _weight(after)) < least and (_acked(after) or not acked):
            yield (change,), weight
        else:
            for other in _shared(after):
                both = _changed(after, other)
                if _acked(both) or not acked:
                    yield (change, other), _weight(both)


def _acked(every: _Alike) -> bool:
    """Whether sends are acked with some of the settings."""
    return not all(one.never_acked for one, _ in every)


def _shared(every: _Alike) -> Iterable[Change]:
    """Return the changes of all settings, once each, that can be afforded."""
    shared: dict[tuple[str, str], Change] = {}
    for one, _ in every:
        for change in _candidates(one):
            if not change.costly:
                shared.setdefault(change.name, change)
    return shared.values()


def _changed(every: _Alike, change: Change) -> _Alike:
    return _alike((after_change(one, change), number) for one, number in every)


def _harms(
    setups: Sequence[Setup], plan: Sequence[Change], loses_more: Callable[[Setup, Setup], bool]
) -> bool:
    """Whether a setup loses more after one of the changes than before it."""
    before = setups
    for change in plan:
        after = [applied(one, change) for one in before]
        if any(loses_more(now, then) for now, then in zip(after, before, strict=True)):
            return True
        before = after
    return False


def _weight(every: _Alike) -> tuple[int, ...]:
    """Return how many sets of one event, of two, … lose or may lose, over all settings."""
    sizes = Counter[int]()
    for one, count in every:
        for size, number in _sizes(sets_of(one)).items():
            sizes[size] += number * count
    return tuple(sizes[number] for number in range(1, 6))


@cache
def _sizes(found: FailureSets) -> Counter[int]:
    """Count the sets that lose or may lose, without moves, which were not always searched."""
    sets = [*(one.failures for one in found.losing), *found.undecided]
    return Counter(how_rare(failures_of(one))[1] for one in sets if Failure.REASSIGNMENT not in one)
