"""The states of a cluster under a schedule of faults, and the steps between them.

A state is a tuple of numbers: each distinct value of the controller, the schedule, the writes and
each broker has one. A rule runs once for each value of the parts that it reads, and its result is
stored, which makes the search ten times as fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Generic, NamedTuple, TypeVar

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.adversary.moves import lags, moves, restart, writes
from ackproof_model.adversary.state import State, Writes, initial
from ackproof_model.adversary.successors import (
    decided,
    fencings,
    lost,
)
from ackproof_model.configuration import Configuration, Profile
from ackproof_model.effects import (
    Cuts,
    Effect,
    Elects,
    Ends,
    LateFetches,
    LateIsrChanges,
    LateMetadata,
    Reassigns,
    Stalls,
)
from ackproof_model.prediction.fault_schedule import (
    FaultEvent,
    Injection,
    Role,
    heal_wait,
    leaves,
)
from ackproof_model.replication import replica as actions
from ackproof_model.replication.state import (
    NOBODY,
    WITHOUT_REPLICA,
    Broker,
    Controller,
    Label,
    members,
)
from ackproof_model.worst_case.fault_steps import (
    Progress,
    applied,
    begins_in_time,
    hold,
    keeps_metadata,
)

#: A broker from which no fault keeps metadata has applied it after this time.
METADATA_S = 2.0

Value = TypeVar("Value", bound=Hashable)


class Scheduled(NamedTuple):
    """The cluster and how far its schedule is."""

    cluster: State
    progress: Progress


#: Effects that depose no leader.
_HARMLESS = (LateFetches, LateIsrChanges, LateMetadata)

#: A state as numbers: of the controller, the progress, the writes, and each broker.
Key = tuple[int, ...]
_BROKERS_AT = 3
Step = tuple[Label, Key]


class Numbers(Generic[Value]):
    """Numbers of values, in the order in which they first occur."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one schedule under one configuration.

    records: how many are written.
    """

    configuration: Configuration
    schedule: tuple[Injection, ...]
    records: int = 1

    def __post_init__(self) -> None:
        # Each rule is asked once for the numbers that it reads.
        for name in (
            *("_served", "_of_broker", "_restarted", "_forgetful", "_fetched", "_late_fetches"),
            *("_fenced", "_down", "_held", "_begin", "_hit", "_healing", "_rest", "_leads"),
            *("_fetcher", "_passed"),
        ):
            object.__setattr__(self, name, cache(getattr(self, name)))

    @cached_property
    def moved(self) -> list[tuple[int, ...]]:
        every = (effect for one in self.schedule for effect in one.effects)
        return [effect.to for effect in every if isinstance(effect, Reassigns)]

    @cached_property
    def brokers(self) -> int:
        """The replicas, and the brokers to which the schedule moves some."""
        named = (1 + max(target) for target in self.moved)
        return max(self.configuration.replication_factor, *named, 0)

    @cached_property
    def model(self) -> AdversaryModel:
        configuration = self.configuration
        replicas = configuration.replication_factor
        return AdversaryModel(
            kafka_version=configuration.kafka_version,
            acks=configuration.acks,
            min_insync_replicas=configuration.min_insync_replicas,
            replicas=replicas,
            unclean_election=configuration.unclean_election,
            elr_enabled=configuration.profile.elr,
            # No adversary asks for a move; this only says that replicas may move.
            budgets=Budgets(records=self.records, reassignments=int(bool(self.moved)), in_all=0),
            spare_brokers=self.brokers - replicas,
            targets=tuple(self.moved),
            misses_epochs=True,
        )

    @property
    def profile(self) -> Profile:
        return self.configuration.profile

    @cached_property
    def _controllers(self) -> Numbers[Controller]:
        return Numbers()

    @cached_property
    def _progress(self) -> Numbers[Progress]:
        return Numbers()

    @cached_property
    def _writes(self) -> Numbers[Writes]:
        return Numbers()

    @cached_property
    def _brokers(self) -> Numbers[Broker]:
        return Numbers()

    @cached_property
    def start(self) -> Key:
        cluster = initial(self.model)
        return (
            self._controllers.of(cluster.controller),
            self._progress.of(Progress(0, 0, (), 0)),
            self._writes.of(cluster.writes),
            *map(self._brokers.of, cluster.brokers),
        )

    def read(self, key: Key) -> Scheduled:
        controller, progress, written, *own = key
        brokers = tuple(self._brokers.values[one] for one in own)
        cluster = State(
            self._controllers.values[controller], brokers, self._writes.values[written], (0,)
        )
        return Scheduled(cluster, self._progress.values[progress])

    def lost(self, key: Key) -> bool:
        """Whether an acked record is lost."""
        written = self._writes.values[key[2]]
        return bool(written.acked) and bool(lost(self.read(key).cluster))

    def successors(self, key: Key) -> list[Step]:
        """Return every step: those of the schedule, and what brokers and controllers do.

        Acks come first (`adversary.successors`). A fault is healed as soon as it may be: that only
        leaves more to happen, and every condition on it asks that it has begun or ended.
        """
        return [(label, self._healed(after)) for label, after in self._steps(key)]

    def _steps(self, key: Key) -> list[Step]:
        controller, progress, written, *own = key
        steps: list[Step] = []
        appends: list[Step] = []
        for number, broker in enumerate(own):
            if self._leads(broker, number):
                acks, more = self._served(number, broker, written)
                for label, after, then in acks:
                    return [(label, _with(key, number, after, writes=then))]
                appends += [
                    (label, _with(key, number, after, writes=then)) for label, after, then in more
                ]
        steps += self._begins(key)
        if self._rest(progress) and decided(self.model, self.read(key).cluster):
            return steps
        steps += appends
        held, fenced, down = self._held(progress), self._fenced(progress), self._down(progress)
        values = self._brokers.values
        for number, broker in enumerate(own):
            source = values[broker].leader
            late = self._late_fetches(progress, number) if source == number else 0
            taken = self._of_broker(number, controller, broker, late, fenced >> number & 1)
            for label, changed, after in taken:
                moved = _with(key, number, after, controller=changed)
                if self._fetcher(after) != self._fetcher(broker):
                    moved = self._without_fetch(moved, number)
                steps.append((label, moved))
            if not values[broker].alive and not down >> number & 1:
                steps += self._start(key, number)
            if source not in (NOBODY, number):
                pair = self._pair(number, source)
                passing = held >> pair & 1
                if passing and self._progress.values[progress].passed >> pair & 1:
                    continue
                fetched = self._fetched(number, broker, source, own[source])
                if fetched is not None:
                    what, follower, leader = fetched
                    after_fetch = _with(_with(key, number, follower), source, leader)
                    if passing:
                        after_fetch = self._without_fetch(after_fetch, number)
                    steps.append(((what, number, source), after_fetch))
        return steps

    # What brokers do: each function reads and returns numbers of values.

    def _leads(self, broker: int, number: int) -> bool:
        return actions.leads(self._brokers.values[broker], number)

    def _served(
        self, number: int, broker: int, written: int
    ) -> tuple[tuple[tuple[Label, int, int], ...], tuple[tuple[Label, int, int], ...]]:
        """Return the acks of a leader, and its appends."""
        served = [
            (label, self._brokers.of(after), self._writes.of(then))
            for label, after, then in writes(
                self.model, self._brokers.values[broker], number, self._writes.values[written]
            )
        ]
        acks = tuple(one for one in served if one[0][0] == "ack")
        return acks, tuple(one for one in served if one[0][0] != "ack")

    def _of_broker(
        self, number: int, controller: int, broker: int, late: int, fenced: int
    ) -> tuple[tuple[Label, int, int], ...]:
        """Return the steps of one broker with the controller.

        late: the followers that may lag. fenced: whether its session may end.
        """
        model, now = self.model, self._controllers.values[controller]
        own = self._brokers.values[broker]
        taken = list(moves(model, now, own, number))
        taken += [step for step in lags(model, now, own, number) if late >> int(step[0][-1]) & 1]
        if fenced:
            taken += fencings(model, now, own, number)
        return tuple(
            (label, self._controllers.of(changed), self._brokers.of(after))
            for label, changed, after in taken
        )

    def _start(self, key: Key, number: int) -> Iterator[Step]:
        started = self._restarted(number, key[0], key[_BROKERS_AT + number])
        if started is not None:
            label, changed, after = started
            others = [self._forgetful(one, number) for one in key[_BROKERS_AT:]]
            known = (*key[:_BROKERS_AT], *others)
            yield label, _with(known, number, after, controller=changed)

    def _restarted(
        self, number: int, controller: int, broker: int
    ) -> tuple[Label, int, int] | None:
        now, own = self._controllers.values[controller], self._brokers.values[broker]
        started = restart(self.model, now, own, number)
        if started is None:
            return None
        label, changed, after = started
        return label, self._controllers.of(changed), self._brokers.of(after)

    def _forgetful(self, broker: int, restarted: int) -> int:
        own = self._brokers.values[broker]
        return self._brokers.of(actions.forget(self.model.policy, own, restarted))

    def _fetched(
        self, number: int, follower: int, source: int, leader: int
    ) -> tuple[str, int, int] | None:
        values = self._brokers.values
        fetched = actions.fetch(self.model.policy, values[follower], number, values[leader], source)
        if fetched is None:
            return None
        what, after, informed = fetched
        return what, self._brokers.of(after), self._brokers.of(informed)

    # What the faults that have begun make possible.

    def _in_force(self, progress: int) -> Iterator[tuple[int, Effect, int]]:
        """Yield the faults that have begun, each of their effects, and the brokers hit."""
        for fault, mask in enumerate(self._progress.values[progress].targets):
            for effect in self.schedule[fault].effects:
                yield fault, effect, mask

    def _late_fetches(self, progress: int, leader: int) -> int:
        """Return the followers that may lag behind a leader since some fault began."""
        late, everyone = 0, self.model.policy.everyone
        for _, effect, mask in self._in_force(progress):
            match effect:
                case LateFetches(followers=followers) if mask >> leader & 1:
                    late |= sum(1 << follower for follower in followers)
                case Stalls() if mask >> leader & 1:
                    late = everyone
                case Cuts(channels=channels) if "replication" in channels:
                    late = everyone
                case Stalls() | Ends():
                    late |= mask
        return late

    def _fenced(self, progress: int) -> int:
        """Return the running brokers whose sessions may end."""
        fenced = 0
        for _, effect, mask in self._in_force(progress):
            match effect:
                case Stalls():
                    fenced |= mask
                case Cuts(channels=channels) if "controllers" in channels:
                    fenced |= self.model.policy.everyone
        return fenced

    def _down(self, progress: int) -> int:
        """Return the brokers that are not started before a fault is healed."""
        down, healed = 0, self._progress.values[progress].healed
        for fault, effect, mask in self._in_force(progress):
            waits = self.schedule[fault].heals_by_itself and not healed >> fault & 1
            down |= mask if isinstance(effect, Ends) and waits else 0
        return down

    def _pair(self, follower: int, source: int) -> int:
        return follower * self.brokers + source

    def _held(self, progress: int) -> int:
        """Return the connections on which fetches are held, as a set of pairs."""
        held, healed = 0, self._progress.values[progress].healed
        if self.records > 1:
            return 0  # one answer has several records, each of which is a step
        for fault, effect, mask in self._in_force(progress):
            if isinstance(effect, LateFetches) and effect.held and not healed >> fault & 1:
                for follower, source in itertools.product(effect.followers, members(mask)):
                    held |= 1 << self._pair(follower, source)
        return held

    def _fetcher(self, broker: int) -> tuple[int, int] | None:
        """Return the leader and the epoch with which a broker fetches, None if it is not alive."""
        own = self._brokers.values[broker]
        return (own.leader, own.epoch) if own.alive else None

    def _without_fetch(self, key: Key, number: int) -> Key:
        """Return a state in which no fetch of a broker is on its way on a held connection."""
        return _moved_on(key, self._passed(key[1], number))

    def _passed(self, progress: int, number: int) -> int:
        now = self._progress.values[progress]
        of_broker = (1 << self.brokers) - 1 << number * self.brokers
        gone = self._held(progress) & of_broker
        return self._progress.of(now._replace(passed=now.passed | gone))

    def _begun(self, key: Key, fault: int) -> Key:
        """Return a state in which a fault has begun, without fetches that cannot be on their way.

        A follower has a request on its way only to the leader that it follows, and a broker that
        has ended, or follows another leader since, takes no answer to it.
        """
        hit = self._progress.values[key[1]].targets[fault]
        for number, broker in enumerate(key[_BROKERS_AT:]):
            follows = self._brokers.values[broker].leader
            ended = not self._brokers.values[broker].alive
            now = self._progress.values[key[1]]
            held = self._held(key[1]) & ~now.passed
            away = [
                self._pair(number, source)
                for source in members(hit)
                if held >> self._pair(number, source) & 1 and (ended or source != follows)
            ]
            passed = now.passed | sum(1 << pair for pair in away)
            key = _moved_on(key, self._progress.of(now._replace(passed=passed)))
            if ended:
                key = self._without_fetch(key, number)
        return key

    def _rest(self, progress: int) -> bool:
        """Whether no fault that is left, and no session that may end, deposes a leader."""
        begun = self._progress.values[progress].begun
        left = itertools.chain(*(one.effects for one in self.schedule[begun:]))
        deposes = any(not isinstance(effect, _HARMLESS) for effect in left)
        return not deposes and not self._fenced(progress)

    # The schedule.

    def _begins(self, key: Key) -> Iterator[Step]:
        """Yield the begin of the next fault, and the end of the run without it."""
        controller, progress, _, *own = key
        now = self._progress.values[progress]
        mask, ends = self._begin(controller, progress)
        if ends:
            everything = (1 << len(self.schedule)) - 1
            ended = Progress(len(self.schedule), everything, now.targets, 0)
            yield ("end",), _moved_on(key, self._progress.of(ended))
        if mask is not None:
            hit = tuple(own[number] for number in members(mask))
            for changed, after in self._hit(controller, progress, mask, hit):
                began = Progress(now.begun + 1, now.healed, (*now.targets, mask), now.passed)
                begun = _moved_on(key, self._progress.of(began), controller=changed)
                for number, broker in zip(members(mask), after, strict=True):
                    begun = _with(begun, number, broker)
                yield ("fault", now.begun), self._begun(begun, now.begun)

    def _healed(self, key: Key) -> Key:
        """Return a state in which every fault is healed that may be."""
        while faults := [one for one in self._healing(key[0], key[1]) if self._applied(key, one)]:
            now = self._progress.values[key[1]]
            healed = now._replace(healed=now.healed | sum(1 << one for one in faults))
            passed = now.passed & self._held(self._progress.of(healed))
            key = _moved_on(key, self._progress.of(healed._replace(passed=passed)))
        return key

    def _begin(self, controller: int, progress: int) -> tuple[int | None, bool]:
        """Return the brokers that the next fault hits, if it may begin.

        And whether the run may end before it.
        """
        now = self._progress.values[progress]
        if now.begun == len(self.schedule):
            return None, False
        injection = self.schedule[now.begun]
        mask = self._mask(self._controllers.values[controller], injection)
        begins = mask is not None and hold(
            self._controllers.values[controller], now, injection.when, injection.or_after
        )
        # Without such faults the run may as well wait for the next one.
        stopped = bool(self._down(progress) or self._held(progress))
        return mask if begins else None, stopped and not begins_in_time(injection)

    def _mask(self, controller: Controller, injection: Injection) -> int | None:
        """Return the brokers that a fault hits; None if it waits for a leader."""
        leader = controller.leader
        if Role.LEADER in injection.targets and leader == NOBODY:
            return None
        named = {leader if one is Role.LEADER else one for one in injection.targets}
        return sum(1 << one for one in named if isinstance(one, int) and one < self.brokers)

    def _hit(
        self, controller: int, progress: int, mask: int, hit: tuple[int, ...]
    ) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Return the controller and the brokers that are hit after the next fault began."""
        number = self._progress.values[progress].begun
        values = dict(zip(members(mask), hit, strict=True))
        brokers = tuple(
            self._brokers.values[values[one]] if one in values else WITHOUT_REPLICA
            for one in range(self.brokers)
        )
        policy = self.model.policy
        clusters = [State(self._controllers.values[controller], brokers, Writes(0, 0), ())]
        for effect in self.schedule[number].effects:
            clusters = [after for one in clusters for after in applied(policy, one, effect, mask)]
        return tuple(
            (
                self._controllers.of(one.controller),
                tuple(self._brokers.of(one.brokers[at]) for at in members(mask)),
            )
            for one in clusters
        )

    def _healing(self, controller: int, progress: int) -> tuple[int, ...]:
        """Return the faults that may be healed, if their elections are applied."""
        now = self._progress.values[progress]
        return tuple(
            fault
            for fault in range(len(now.targets))
            if self._followed >> fault & 1
            and not now.healed >> fault & 1
            and (
                hold(
                    self._controllers.values[controller],
                    now,
                    self.schedule[fault].heal_when,
                    self.schedule[fault].heal_or_after,
                )
                if self.schedule[fault].heals_by_itself
                else now.begun == len(self.schedule)
            )
        )

    @cached_property
    def _followed(self) -> int:
        """The faults whose healing changes what is possible, as a bitmask."""
        every = itertools.chain(*((*one.when, *one.heal_when) for one in self.schedule))
        named = {one.fault for one in leaves(every) if isinstance(one, FaultEvent)}
        return sum(
            1 << fault
            for fault, one in enumerate(self.schedule)
            if any(isinstance(effect, LateFetches) and effect.held for effect in one.effects)
            or (
                one.heals_by_itself
                and (fault in named or any(isinstance(effect, Ends) for effect in one.effects))
            )
        )

    def _applied(self, key: Key, fault: int) -> bool:
        """Whether brokers have applied an election that is healed, if they certainly have."""
        now = self._progress.values[key[1]]
        if now.begun > fault + 1 or not self._certain_metadata >> fault & 1:
            return True
        epoch = self._controllers.values[key[0]].epoch
        brokers = (self._brokers.values[one] for one in key[_BROKERS_AT:])
        return all(one.epoch == epoch for one in brokers if one.alive)

    @cached_property
    def _certain_metadata(self) -> int:
        """The elections that brokers have applied when they are healed, as a bitmask."""
        replicas = set(range(self.configuration.replication_factor))
        moving = any(set(target) != replicas for target in self.moved)
        if moving or self.profile.shrink_bumps_epoch:
            return 0  # there may be a later epoch
        certain, kept = 0, False
        for fault, injection in enumerate(self.schedule):
            asked = any(isinstance(effect, Elects) for effect in injection.effects)
            waits = heal_wait(injection).at_least >= METADATA_S
            certain |= (asked and waits and not kept) << fault
            kept = kept or any(map(keeps_metadata, injection.effects))
        return certain


def _with(
    key: Key, number: int, broker: int, *, controller: int | None = None, writes: int | None = None
) -> Key:
    """Return a state with another value of one broker."""
    changed = list(key)
    changed[_BROKERS_AT + number] = broker
    if controller is not None:
        changed[0] = controller
    if writes is not None:
        changed[2] = writes
    return tuple(changed)


def _moved_on(key: Key, progress: int, *, controller: int | None = None) -> Key:
    """Return a state with another progress of the schedule."""
    return (key[0] if controller is None else controller, progress, *key[2:])
