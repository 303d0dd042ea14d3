"""Whether a schedule may lose an acked record, by a search that keeps the order of its faults.

It stands between the exact search (`prediction.search`), which also follows producers and timers,
and the worst case, which forgets order and targets. Faults begin in their order, on their targets,
and when their conditions on the leader, the ISR and other faults hold. All else may happen at any
time, as for the adversary, whose actions these are. What a fault makes possible (lag, the end of a
session, late fetches and metadata) may happen or not from its begin on. So the search allows all
that brokers can do, and more: a condition on clients, time or logs is taken to hold at any time.

A broker may miss an epoch, with one exception: it has applied an election that an operator asked
for when that fault is healed, `METADATA_S` later at least, if no earlier fault keeps metadata from
a broker. Tests with more records give the same answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.adversary.moves import lags, moves, restart, writes
from ackproof_model.adversary.state import State, initial
from ackproof_model.adversary.successors import decided, fencings, lost, with_brokers
from ackproof_model.breadth_first import explore
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
from ackproof_model.kafka.partition_change import Election
from ackproof_model.prediction.fault_schedule import (
    AnyOf,
    Condition,
    FaultEvent,
    Injection,
    IsrIs,
    IsrSize,
    LeaderIs,
    Role,
    heal_wait,
)
from ackproof_model.prediction.result import Likelihood, Prediction, inconsistent
from ackproof_model.replication import replica as actions
from ackproof_model.replication.controller import (
    begin_shutdown,
    can_begin_shutdown,
    can_reassign,
    change,
    reassign,
    with_version,
)
from ackproof_model.replication.state import NOBODY, STOPPING, Label, members, name
from ackproof_model.worst_case.answer import sentence

#: A broker from which no fault keeps metadata has applied it after this time.
METADATA_S = 2.0

_METHOD = (
    "Exact search for lost records in the order of the faults: one partition and one record; "
    "whatever the order leaves open may happen at any time; an election is applied "
    f"{METADATA_S:g} s later, unless a fault keeps metadata from a broker; it leaves out automatic "
    "preferred elections."
)
_LOST = "lost"
#: As many as `AdversaryModel` supports.
_MOST_BROKERS = 5
_SUPPORTED = (Cuts, Elects, Ends, LateFetches, LateIsrChanges, LateMetadata, Reassigns, Stalls)


class Scheduled(NamedTuple):
    """The cluster, how many faults have begun, which are healed, and the brokers that each hit."""

    cluster: State
    begun: int
    healed: int
    targets: tuple[int, ...]


Step = tuple[Label, Scheduled]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The result. trace: a shortest way to a loss, a sentence each step; empty if there is none.

    states: how many were searched. complete: False if their limit ended the search.
    """

    trace: tuple[str, ...]
    states: int
    complete: bool

    @property
    def lost(self) -> bool:
        return bool(self.trace)


def unsupported(configuration: Configuration, schedule: Sequence[Injection]) -> str:
    """Return what the search does not support; '' if it supports the schedule."""
    return next(_unsupported(configuration, schedule), "")


def _unsupported(configuration: Configuration, schedule: Sequence[Injection]) -> Iterator[str]:
    if configuration.profile.zookeeper:
        yield "ZooKeeper mode"
    if configuration.acks != "all" or configuration.unclean_election:
        yield "acks below all and unclean elections"
    for injection in schedule:
        for effect in injection.effects:
            if not isinstance(effect, _SUPPORTED):
                yield type(effect).__name__
            elif isinstance(effect, Ends) and effect.clean and len(injection.targets) > 1:
                yield "several controlled shutdowns at once"
        if any(isinstance(one, Role) and one is not Role.LEADER for one in injection.targets):
            yield "brokers that are not known before"
    shut_down = any(injection.shuts_down for injection in schedule)
    effects = itertools.chain(*(injection.effects for injection in schedule))
    if shut_down and any(map(_refuses_shutdown, effects)):
        yield "a controlled shutdown that may end in a SIGKILL"
    if _Search(configuration, tuple(schedule)).brokers > _MOST_BROKERS:
        yield f"more than {_MOST_BROKERS} brokers"


def excludes_losses(configuration: Configuration) -> bool:
    """Whether a search without a loss excludes one: it leaves out late fetch responses."""
    return not configuration.profile.stale_fetch or configuration.replication_factor == 1


def search(
    configuration: Configuration,
    schedule: Sequence[Injection],
    *,
    max_states: int,
    records: int = 1,
) -> Ordered:
    """Search what `schedule` allows, up to `max_states` states.

    Raises ValueError if the search does not support the schedule (`unsupported`).
    """
    if what := unsupported(configuration, schedule):
        raise ValueError(f"schedule has {what}: ask unsupported() first")
    one = _Search(configuration, tuple(schedule), records)
    found = explore(
        Scheduled(initial(one.model), 0, 0, ()),
        one.successors,
        lambda state: [_LOST] if lost(state.cluster) else [],
        until=[_LOST],
        max_states=max_states,
    )
    trace = found.traces.get(_LOST, ())
    return Ordered(
        trace=tuple(_sentences(schedule, trace)), states=found.states, complete=found.complete
    )


def with_order(
    prediction: Prediction, configuration: Configuration, found: Sequence[Ordered]
) -> Prediction:
    """Return a worst case with the answer to losses of these searches of one schedule."""
    losing = min((one for one in found if one.lost), key=lambda one: len(one.trace), default=None)
    states = sum(one.states for one in found)
    if losing is not None:
        lost = Likelihood.POSSIBLE, "the faults in their order may lose an acked record"
    else:
        kept = "the faults in their order lose no acked record, whenever all other steps happen"
        lost = Likelihood.IMPOSSIBLE, f"{kept} ({states} states)"
    likelihood = {**prediction.likelihood, "lost": lost[0]}
    inconsistency = inconsistent(configuration, likelihood)
    return replace(
        prediction,
        likelihood={**likelihood, "inconsistent": inconsistency[0]},
        reasons={**prediction.reasons, "lost": lost[1], "inconsistent": inconsistency[1]},
        trace=losing.trace if losing is not None else (),
        method=f"{_METHOD} For the rest: {prediction.method}",
    )


def _sentences(
    schedule: Sequence[Injection], trace: Sequence[tuple[Label, Scheduled]]
) -> Iterator[str]:
    leader = 0
    replicas: tuple[int, ...] = ()
    for label, state in trace:
        what, *numbers = label
        fault = schedule[numbers[0]].fault if what in ("fault", "heal") else ""
        match what:
            case "fault":
                text = f"Fault {numbers[0] + 1} ({fault}) begins."
            case "heal":
                text = f"Fault {numbers[0] + 1} ({fault}) ends."
            case "end":
                text = "The run ends before the next fault, and every fault is healed."
            case "delete":
                text = f"{name(numbers[0])} deletes the log of its replica, which was removed."
            case "refuse":
                text = f"The controller refuses the ISR that {name(numbers[0])} has asked for."
            case _:
                text = sentence(label)
        controller = state.cluster.controller
        moved = controller.assignment.replicas if controller.assignment else ()
        if moved != replicas and what != "write":
            text += f" The replicas are {', '.join(map(name, moved))}."
        if controller.leader != leader:
            led = "No replica" if controller.leader == NOBODY else name(controller.leader)
            text += f" {led} leads."
        leader, replicas = controller.leader, moved
        yield text
    if trace:
        cluster = trace[-1][1].cluster
        gone = " and ".join(f"record {one + 1}" for one in members(lost(cluster)))
        led = name(cluster.controller.leader)
        yield f"{led} leads without {gone}, which was acked: it is lost."


@dataclass(frozen=True)
class _Search:
    configuration: Configuration
    schedule: tuple[Injection, ...]
    records: int = 1

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

    def successors(self, state: Scheduled) -> Iterator[Step]:
        """Yield every step: those of the schedule, and what brokers and controllers do."""
        acks = [step for step in self._writes(state) if step[0][0] == "ack"]
        if acks:  # see `adversary.successors`
            yield acks[0]
            return
        yield from self._begins(state)
        yield from self._heals(state)
        if self._over(state):
            return
        yield from self._writes(state)
        for number in range(self.brokers):
            for label, cluster in self._of_broker(state, number):
                yield label, state._replace(cluster=cluster)

    def _over(self, state: Scheduled) -> bool:
        """Whether no loss can follow (`adversary.successors.decided`)."""
        left = itertools.chain(*(one.effects for one in self.schedule[state.begun :]))
        deposes = any(
            not isinstance(effect, LateFetches | LateIsrChanges | LateMetadata) for effect in left
        )
        return not deposes and not self._fenced(state) and decided(state.cluster)

    def _writes(self, state: Scheduled) -> Iterator[Step]:
        cluster = state.cluster
        for number, broker in enumerate(cluster.brokers):
            for label, after, written in writes(self.model, broker, number, cluster.writes):
                changed = with_brokers(cluster, {number: after})._replace(writes=written)
                yield label, state._replace(cluster=changed)

    def _of_broker(self, state: Scheduled, number: int) -> Iterator[tuple[Label, State]]:
        cluster, model, policy = state.cluster, self.model, self.model.policy
        controller, broker = cluster.controller, cluster.brokers[number]
        taken = list(moves(model, controller, broker, number))
        if broker.leader == number:
            late = self._late(state, number)
            shrinks = lags(model, controller, broker, number)
            taken += [step for step in shrinks if late >> int(step[0][-1]) & 1]
        if self._fenced(state) >> number & 1:
            taken += fencings(model, controller, broker, number)
        for label, changed, after in taken:
            yield label, with_brokers(cluster, {number: after}, changed)
        if not broker.alive and not self._held_down(state) >> number & 1:
            started = restart(model, controller, broker, number)
            if started is not None:
                label, changed, after = started
                known = {
                    n: actions.forget(policy, b, number) for n, b in enumerate(cluster.brokers)
                }
                yield label, with_brokers(cluster, {**known, number: after}, changed)
        source = broker.leader
        if source not in (NOBODY, number):
            fetched = actions.fetch(policy, broker, number, cluster.brokers[source], source)
            if fetched is not None:
                what, follower, leader = fetched
                yield (
                    (what, number, source),
                    with_brokers(cluster, {number: follower, source: leader}),
                )

    def _begun(self, state: Scheduled) -> Iterator[tuple[int, Effect, int]]:
        """Yield the faults that have begun, each of their effects, and the brokers hit."""
        for fault, mask in enumerate(state.targets):
            for effect in self.schedule[fault].effects:
                yield fault, effect, mask

    def _late(self, state: Scheduled, leader: int) -> int:
        """Return the followers that may lag behind a leader since some fault began."""
        late, everyone = 0, self.model.policy.everyone
        for _, effect, mask in self._begun(state):
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

    def _fenced(self, state: Scheduled) -> int:
        """Return the running brokers whose sessions may end."""
        fenced = 0
        for _, effect, mask in self._begun(state):
            match effect:
                case Stalls():
                    fenced |= mask
                case Cuts(channels=channels) if "controllers" in channels:
                    fenced |= self.model.policy.everyone
        return fenced

    def _held_down(self, state: Scheduled) -> int:
        """Return the brokers that are not started before a fault is healed."""
        down = 0
        for fault, effect, mask in self._begun(state):
            waits = self.schedule[fault].heals_by_itself and not state.healed >> fault & 1
            down |= mask if isinstance(effect, Ends) and waits else 0
        return down

    def _begins(self, state: Scheduled) -> Iterator[Step]:
        """Yield the begin of the next fault, or the end of the run without it."""
        fault = state.begun
        if fault == len(self.schedule):
            return
        if self._held_down(state):  # else the run may as well wait for the fault
            everything = (1 << len(self.schedule)) - 1
            yield ("end",), state._replace(begun=len(self.schedule), healed=everything)
        injection = self.schedule[fault]
        mask = self._mask(state, injection)
        if mask is None or not self._hold(state, injection.when, injection.or_after):
            return
        clusters: Iterable[State] = [state.cluster]
        for effect in injection.effects:
            clusters = [after for one in clusters for after in self._apply(one, effect, mask)]
        for cluster in clusters:
            yield (
                ("fault", fault),
                Scheduled(cluster, fault + 1, state.healed, (*state.targets, mask)),
            )

    def _mask(self, state: Scheduled, injection: Injection) -> int | None:
        """Return the brokers that a fault hits; None if it waits for a leader."""
        leader = state.cluster.controller.leader
        if Role.LEADER in injection.targets and leader == NOBODY:
            return None
        named = {leader if one is Role.LEADER else one for one in injection.targets}
        return sum(1 << one for one in named if isinstance(one, int) and one < self.brokers)

    def _heals(self, state: Scheduled) -> Iterator[Step]:
        for fault in range(len(state.targets)):
            injection = self.schedule[fault]
            if (
                self._followed >> fault & 1
                and not state.healed >> fault & 1
                and self._hold(state, injection.heal_when, injection.heal_or_after)
                and self._applied(state, fault)
            ):
                yield ("heal", fault), state._replace(healed=state.healed | 1 << fault)

    @cached_property
    def _followed(self) -> int:
        """The faults whose healing changes what is possible, as a bitmask."""
        every = itertools.chain(*((*one.when, *one.heal_when) for one in self.schedule))
        named = {one.fault for one in _leaves(every) if isinstance(one, FaultEvent)}
        return sum(
            1 << fault
            for fault, one in enumerate(self.schedule)
            if one.heals_by_itself
            and (fault in named or any(isinstance(effect, Ends) for effect in one.effects))
        )

    def _applied(self, state: Scheduled, fault: int) -> bool:
        """Whether brokers have applied an election that is healed, if they certainly have."""
        if state.begun > fault + 1 or not self._certain_metadata >> fault & 1:
            return True
        epoch = state.cluster.controller.epoch
        return all(one.epoch == epoch for one in state.cluster.brokers if one.alive)

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
            kept = kept or any(map(_keeps_metadata, injection.effects))
        return certain

    def _hold(
        self, state: Scheduled, conditions: Iterable[Condition], or_after: float | None
    ) -> bool:
        return or_after is not None or all(self._holds(state, one) for one in conditions)

    def _holds(self, state: Scheduled, condition: Condition) -> bool:
        controller = state.cluster.controller
        met = True  # a condition on clients, time or logs
        match condition:
            case IsrSize():
                met = condition.met_by(controller.isr.bit_count())
            case IsrIs(members=wanted):
                met = controller.isr == sum(1 << one for one in wanted)
            case LeaderIs(replica=replica, equal=equal):
                met = (controller.leader == (NOBODY if replica is None else replica)) == equal
            case FaultEvent(fault=fault, event="began"):
                met = fault < state.begun
            case FaultEvent(fault=fault, event=event):
                hit = state.targets[fault] if fault < len(state.targets) else 0
                met = bool(state.healed >> fault & 1)
                met = met and (event == "ended" or not hit & ~controller.isr)
            case AnyOf(alternatives=alternatives):
                met = any(self._holds(state, one) for one in alternatives)
        return met

    def _apply(self, state: State, effect: Effect, mask: int) -> Iterator[State]:
        policy, controller = self.model.policy, state.controller
        after = controller
        match effect:
            case Ends(clean=True):
                yield self._shut_down(state, mask)
                return
            case Ends():
                yield from self._ended(state, effect, mask)
                return
            case Elects(unclean=unclean) if not (unclean and controller.leader != NOBODY):
                election = Election.UNCLEAN if unclean else Election.PREFERRED
                after = change(policy, controller, controller.isr, election=election)
            case Reassigns(to=target) if can_reassign(policy, controller, target):
                after = reassign(policy, controller, target)
        yield state._replace(controller=with_version(controller, after))

    def _shut_down(self, state: State, mask: int) -> State:
        for number in members(mask):
            broker = state.brokers[number]
            if can_begin_shutdown(broker):
                stopping = begin_shutdown(self.model.policy, state.controller, number)
                changed = with_version(state.controller, stopping)
                state = with_brokers(state, {number: broker._replace(status=STOPPING)}, changed)
        return state

    def _ended(self, state: State, effect: Ends, mask: int) -> Iterator[State]:
        """Yield the states in which the disk of each broker that ends has what it may have."""
        ending = [number for number in members(mask) if actions.can_end(state.brokers[number])]
        disks = []
        for number in ending:
            end = len(state.brokers[number].log)
            lengths = {"kept": [end], "empty": [0]}.get(effect.log, list(range(end + 1)))
            down = actions.ended(self.model.policy, state.brokers[number])
            disks.append(
                list(actions.crashed(down, range(end + 1) if lengths is None else lengths))
            )
        for chosen in itertools.product(*disks):
            yield with_brokers(state, dict(zip(ending, chosen, strict=True)))


def _leaves(conditions: Iterable[Condition]) -> Iterator[Condition]:
    for one in conditions:
        yield from _leaves(one.alternatives) if isinstance(one, AnyOf) else (one,)


def _refuses_shutdown(effect: Effect) -> bool:
    """Whether a broker may not get leave to end, or others may not read that it leads nothing."""
    cut = isinstance(effect, Cuts) and "controllers" in effect.channels
    return cut or isinstance(effect, Stalls | LateMetadata)


def _keeps_metadata(effect: Effect) -> bool:
    return _refuses_shutdown(effect) or isinstance(effect, Ends)
