"""The outcome of an operator's steps: every order of what the brokers do between them.

After each step brokers and controller do all that they can, at any speed: the actions of
`adversary.successors`. A broker starts only if a step starts it. A record is lost once a leader
that knows that it leads lacks it, because its followers then truncate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise

from ackproof_model.adversary.state import AdversaryModel, State
from ackproof_model.adversary.successors import (
    clean_stops,
    kills,
    lost,
    power_losses,
    successors,
    with_brokers,
)
from ackproof_model.advice.situation import Kind, Offsets, Situation, joined
from ackproof_model.advice.steps import Elect, Fail, MinIsr, Move, Replace, Start, Step, Stop
from ackproof_model.breadth_first import reachable
from ackproof_model.kafka.partition_change import Election
from ackproof_model.replication.controller import change, with_version
from ackproof_model.replication.leader import enough_in_sync
from ackproof_model.replication.state import DOWN, NOBODY, Broker, Label

#: The most states that are searched for all steps together.
MAX_STATES = 200_000


class Ability(StrEnum):
    """Whether clients can read or write: in no order of events, in some, in all."""

    NO = "no"
    PERHAPS = "perhaps"
    YES = "yes"

    def below(self, other: Ability) -> bool:
        order = list(Ability)
        return order.index(self) < order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of some steps on one partition, once nothing changes any more.

    may_lose, loses: acked offsets that are lost in some order of events, and in all. loses_new: a
    record that is acked meanwhile may be lost, too. disks: brokers whose logs have all of
    `may_lose` in the end, in every order. leaders: those that may lead in the end, None for none.
    reads, writes: in the end, writes by the producers' acks. complete: whether every order was
    searched; if not, more may be lost than `may_lose`.
    """

    may_lose: tuple[Offsets, ...]
    loses: tuple[Offsets, ...]
    loses_new: bool
    disks: tuple[int, ...]
    leaders: tuple[int | None, ...]
    reads: Ability
    writes: Ability
    complete: bool

    @property
    def keeps(self) -> bool:
        return self.complete and not self.may_lose and not self.loses_new

    def loses_beyond(self, other: Outcome) -> bool:
        """Whether this may lose, or certainly loses, a record that the other outcome does not."""
        return (
            (self.loses_new and not other.loses_new)
            or not all(_has(other.may_lose, one) for one in self.may_lose)
            or not all(_has(other.loses, one) for one in self.loses)
        )

    @property
    def at_risk(self) -> int:
        """The number of offsets that may be lost."""
        return sum(one.count for one in self.may_lose)


def outcome(situation: Situation, steps: Sequence[Step], *, writes: int = 0) -> Outcome:
    """Return what the steps do to a partition.

    Each step starts once the cluster is quiet; a failure may strike at any moment. With `writes`,
    so many records are written meanwhile, and every step may start at any moment. Partitions in the
    same state, but for their offsets, are searched once.
    """
    found = _found(situation.kind, tuple(steps), writes)
    if not found.may_lose:
        return found.outcome
    return replace(
        found.outcome,
        may_lose=situation.offsets(found.may_lose),
        loses=situation.offsets(found.loses),
    )


def writes_after(situation: Situation, steps: Sequence[Step]) -> Ability:
    """Return whether a partition can be written after the steps: `outcome`'s `writes`."""
    return _found(situation.kind, tuple(steps), 0).outcome.writes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The outcome of all situations of a kind: without offsets, and the sets of lost records."""

    outcome: Outcome
    may_lose: int
    loses: int


@cache
def _found(kind: Kind, steps: tuple[Step, ...], writes: int) -> _Found:
    situation = kind.first
    for step in steps:
        if isinstance(step, Move) and step.broker in situation.numbers:
            situation = situation.with_target(step.to)
    model, numbers = situation.model(writes=writes), situation.numbers
    numbered = (_numbered(step, numbers) for step in steps)
    taken = tuple(step for step in numbered if step != Start(()))
    if shared := model.acks != "all" and not writes:
        # All records are acked then, and none follows: only the need of an ISR differs.
        model = replace(model, acks="all")
    found = _searched(model, taken, at_any_time=writes > 0)
    old = (1 << situation.records) - 1
    brokers = [one.broker for one in situation.replicas]
    return _Found(
        outcome=Outcome(
            may_lose=(),
            loses=(),
            loses_new=bool(found.may_lose & ~old),
            disks=tuple(brokers[number] for number in found.disks),
            leaders=tuple(None if at == NOBODY else brokers[at] for at in found.leaders),
            reads=found.reads,
            writes=found.reads if shared else found.writes,
            complete=found.complete,
        ),
        may_lose=found.may_lose & old,
        loses=found.loses & old,
    )


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of steps in a state of which several possibilities are known."""
    first, *others = outcomes
    if not others:
        return first
    every = [offsets for one in outcomes for offsets in (*one.may_lose, *one.loses)]
    cuts = sorted({at for one in every for at in (one.first, one.last + 1)})
    parts = [Offsets(first, after - 1) for first, after in pairwise(cuts)]
    risked = [at for at in parts if any(_has(one.may_lose, at) for one in outcomes)]
    certain = [at for at in parts if all(_has(one.loses, at) for one in outcomes)]
    return Outcome(
        may_lose=joined(risked),
        loses=joined(certain),
        loses_new=any(one.loses_new for one in outcomes),
        disks=tuple(
            sorted(set.intersection(*(set(one.disks) for one in outcomes if one.may_lose)))
            if risked
            else ()
        ),
        leaders=tuple(
            sorted(
                {leader for one in outcomes for leader in one.leaders},
                key=lambda leader: -1 if leader is None else leader,
            )
        ),
        reads=_alike(one.reads for one in outcomes),
        writes=_alike(one.writes for one in outcomes),
        complete=all(one.complete for one in outcomes),
    )


def _has(ranges: Iterable[Offsets], part: Offsets) -> bool:
    return any(one.first <= part.first and part.last <= one.last for one in ranges)


def _alike(abilities: Iterable[Ability]) -> Ability:
    seen = set(abilities)
    return seen.pop() if len(seen) == 1 else Ability.PERHAPS


def _numbered(step: Step, numbers: Mapping[int, int]) -> Step:
    """Return the step with the model's numbers of those brokers that have a replica."""
    match step:
        case Start(brokers):
            return Start(tuple(sorted(numbers[one] for one in brokers if one in numbers)))
        case Stop(broker):
            return Stop(numbers.get(broker, NOBODY))
        case Fail(broker, power):
            return Fail(numbers.get(broker, NOBODY), power)
        case Replace(broker):
            return Replace(numbers.get(broker, NOBODY))
        case Move(broker, to):
            return Move(numbers.get(broker, NOBODY), numbers.get(to, NOBODY))
    return step


@dataclass(frozen=True, slots=True, kw_only=True)
class _Searched:
    """An outcome with sets of records and numbers of replicas."""

    may_lose: int
    loses: int
    disks: tuple[int, ...]
    leaders: tuple[int, ...]
    reads: Ability
    writes: Ability
    complete: bool


@cache
def _searched(model: AdversaryModel, steps: tuple[Step, ...], *, at_any_time: bool) -> _Searched:
    assert model.start is not None
    search = _Search(model=model)
    reached, ends = search.settled({model.start})
    for step in steps:
        before = reached if at_any_time or isinstance(step, Fail) else ends
        reached, ends = search.settled(
            {after for state in before for after in search.taken(state, step)}
        )
    certain = search.lost
    for state in ends:
        certain &= lost(state)
    led = [state.controller.leader != NOBODY for state in ends]
    return _Searched(
        may_lose=search.lost,
        loses=certain,
        disks=tuple(
            number
            for number in range(model.replicas)
            if search.lost
            and not any(search.lost & ~state.brokers[number].records for state in ends)
        ),
        leaders=tuple(sorted({state.controller.leader for state in ends})),
        reads=_ability(led),
        writes=_ability(
            leads and enough_in_sync(search.model.policy, state.controller.isr)
            for leads, state in zip(led, ends, strict=True)
        ),
        complete=search.left > 0,
    )


def _ability(able: Iterable[bool]) -> Ability:
    seen = set(able)
    return Ability.PERHAPS if len(seen) > 1 else Ability.YES if seen == {True} else Ability.NO


@dataclass(slots=True, kw_only=True)
class _Search:
    """The search of all steps. left: how many states may still be searched. lost: what was lost."""

    model: AdversaryModel
    left: int = MAX_STATES
    lost: int = 0
    _startable: frozenset[int] = frozenset()

    def taken(self, state: State, step: Step) -> Iterator[State]:
        """Yield the states in which a step of the operator begins."""
        controller = state.controller
        match step:
            case Start(numbers):
                self._startable |= set(numbers)
                yield state
            case Elect():
                if controller.leader == NOBODY:
                    policy = self.model.policy
                    after = change(policy, controller, controller.isr, election=Election.UNCLEAN)
                    controller = with_version(controller, after)
                yield state._replace(controller=controller)
            case Stop(number):
                self._startable -= {number}
                broker = state.brokers[number] if number != NOBODY else None
                stops = clean_stops(self.model, controller, broker, number) if broker else ()
                states = [with_brokers(state, {number: down}, after) for _, after, down in stops]
                yield from states or [state]

            case Fail(number, power):
                self._startable -= {number}
                broker = state.brokers[number] if number != NOBODY else None
                fail = power_losses if power else kills
                failed = fail(self.model, controller, broker, number) if broker else ()
                states = [with_brokers(state, {number: down}, after) for _, after, down in failed]
                yield from states or [state]
            case Replace(number) if number != NOBODY:
                self._startable |= {number}
                yield with_brokers(state, {number: Broker(DOWN, False, (), NOBODY, 0)})
            case MinIsr(value):
                self.model = replace(self.model, min_insync_replicas=value)
                before = controller
                if self.model.policy.elr:  # ClearElrRecord
                    before = controller._replace(elr=0, last_known=NOBODY)
                after = change(self.model.policy, before, controller.isr)
                yield state._replace(controller=with_version(controller, after))
            case Move(number, to) if NOBODY not in (number, to):
                yield self._moved(state, number, to)
            case _:
                yield state

    def _moved(self, state: State, number: int, to: int) -> State:
        """Return the state once the new replica has replaced the other; the same if it cannot.

        The new replica has to join the ISR first (`PartitionReassignmentReplicas`, KIP-455).
        """
        controller = state.controller
        if not controller.isr >> to & 1:
            return state
        self._startable -= {number}
        bit = 1 << number
        without = controller._replace(
            fenced=controller.fenced | bit,
            elr=controller.elr & ~bit,
            leader=NOBODY if controller.leader == number else controller.leader,
        )
        after = with_version(controller, change(self.model.policy, without, controller.isr & ~bit))
        return with_brokers(state, {number: Broker(DOWN, False, (), NOBODY, 0)}, after)

    def settled(self, states: Iterable[State]) -> tuple[set[State], set[State]]:
        """Return all reached states, and those in which nothing happens any more.

        Adds to `lost` on the way.
        """
        reached: set[State] = set()
        final: set[State] = set()

        def steps(state: State) -> Iterable[tuple[Label, State]]:
            taken = [step for step in successors(self.model, state) if self._allowed(step[0])]
            if not taken:
                final.add(state)
            return taken

        for first in states:
            if first in reached:
                continue
            for one in reachable(first, steps):
                reached.add(one.state)
                self.lost |= lost(one.state)
                self.left -= 1
                if self.left <= 0:
                    return reached, final or reached
        return reached, final or reached

    def _allowed(self, label: Label) -> bool:
        what, *numbers = label
        return what != "restart" or numbers[0] in self._startable
