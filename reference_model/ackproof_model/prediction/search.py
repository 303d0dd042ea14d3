"""Exhaustive search of every state that a schedule allows.

A layer is a part of the schedule: the faults that have begun, and those that are healed. Within a
layer, producer, brokers and controller take every possible step. The steps of the schedule (begin a
fault, heal it, end the run) lead to later layers. Here fault 1, a kill of leader A, is healed when
the leader has changed, or after 20 s:

    layer: fault 1 has begun                         layer: fault 1 is healed
    +------------------------------------------+     +-----------------------+
    |  a --fetch--> b                          |     |                       |
    |  |            |                          |     |                       |
    |  | fence      | fence (session timer)    |     |                       |
    |  v            v                          |     |                       |
    |  c --fetch--> d --learn--> e             |     |                       |
    |  |            |            +- leader changed ->|  e' --> ...           |
    |  |            +-------------- leader changed ->|  d' --> ...           |
    |  +--------------------------- leader changed ->|  c' --> ...           |
    +------------------------------------------+     +-----------------------+

From a and b the fault is not healed after 20 s: the session must have ended before.

A layer is completed before the schedule takes a step from it, since two questions need all of it:

- In time (`_in_time`): may the schedule's step still happen here, so many seconds after the fault?
  Not if a timer is open that must have fired earlier: the brokers would have taken its step first.
- Certain (`_reaching`): do steps lead from here to a state that meets the condition, without a
  timer or with one that must have fired by then? Steps without a timer take no time, so then the
  condition is met first, and `or_after` does not fire. A prediction is `certain` if every final
  state has the anomaly (`_judge`).

A timer may have fired, and must have fired, within the limits of the schedule (`Model`). The search
is breadth first over all layers, so traces are shortest.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ackproof_model.prediction.consumer import read_then_gone, readable, writable
from ackproof_model.prediction.injection import heal
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.pending import Cause, Pending
from ackproof_model.prediction.producer import is_acked, unresolved
from ackproof_model.prediction.reduction import leads_for_good
from ackproof_model.prediction.state import Layer, Run, State, Timer
from ackproof_model.prediction.stepping import Stepping
from ackproof_model.replication.state import DOWN, Label, record_of

#: The anomalies that the search can find.
SEARCHED = ("lost", "duplicated", "reordered", "read-then-gone")


@dataclass
class Exploration:
    """The searched states.

    final: the number of final states. having: how many of them have each anomaly. first: the index
    of the nearest. at_risk: the phases of the records that some trace acks and loses. stuck: how
    many states have no successor although their outcome is open.
    complete: False if the budget of states ran out.
    """

    model: Model
    stepping: Stepping
    final: int = 0
    stuck: int = 0
    having: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SEARCHED, 0))
    first: dict[str, int] = field(default_factory=dict)
    at_risk: set[int] = field(default_factory=set)
    complete: bool = True
    #: By part of the schedule: whether the partition can be read, and written with acks=all, at the
    #: end of the part; each pair that occurs.
    available: dict[Layer, set[tuple[bool, bool]]] = field(default_factory=lambda: defaultdict(set))
    parents: list[tuple[int, Label]] = field(default_factory=list)

    @property
    def states(self) -> int:
        """The number of searched states."""
        return len(self.parents)

    @property
    def taken(self) -> set[str]:
        """The kinds of steps taken."""
        return self.stepping.taken

    def state(self, index: int) -> State:
        return self.stepping.state(index)

    def trace(self, index: int) -> list[tuple[Label, State, State]]:
        """Return the shortest trace to a state, as (label, state before, state after)."""
        way: list[tuple[Label, State, State]] = []
        while (parent := self.parents[index])[0] >= 0:
            before, label = parent
            way.append((label, self.state(before), self.state(index)))
            index = before
        return way[::-1]


def explore(model: Model, *, max_states: int) -> Exploration:
    """Search all states that `model`'s schedule allows, up to `max_states`."""
    collecting = gc.isenabled()
    gc.disable()  # states have no cycles
    try:
        return _Search(model, max_states).run()
    finally:
        if collecting:
            gc.enable()


def settled(model: Model, state: State) -> bool:
    """Whether the log of the leader is final.

    The schedule has ended, every send has its outcome, and the leader knows that it leads and will
    not fail.
    """
    waiting = any(unresolved(status) for status in state.client.status)
    return model.ended(state) and not waiting and leads_for_good(model, state)


def lost(model: Model, state: State) -> list[int]:
    """Return the acked records that the final log of a settled state lacks."""
    stored = {record_of(one) for one in state.brokers[state.controller.leader].log}
    status = enumerate(state.client.status)
    return [record for record, s in status if is_acked(model, s) and record not in stored]


def anomalies(model: Model, state: State) -> Iterator[str]:
    log = [record_of(one) for one in state.brokers[state.controller.leader].log]
    firsts = list(dict.fromkeys(log))
    if lost(model, state):
        yield "lost"
    if len(firsts) < len(log):
        yield "duplicated"
    if firsts != sorted(firsts):
        yield "reordered"
    if read_then_gone(model, state):
        yield "read-then-gone"


class _OutOfStatesError(Exception):
    """The budget of states ran out."""


class _Search:
    def __init__(self, model: Model, max_states: int) -> None:
        self._model = model
        self._max_states = max_states
        self._exploration = Exploration(model, Stepping(model))
        self._depth: list[int] = []
        self._entries: dict[Layer, list[int]] = defaultdict(list)
        # For each state of the current layer: its predecessors, by steps without and with a timer;
        # its successors by which a broker learns metadata.
        self._before: dict[int, list[int]] = {}
        self._before_by_timer: dict[int, list[tuple[int, Timer]]] = {}
        self._learned: dict[int, list[int]] = {}
        # The states of the layer that have successors in it.
        self._sources: set[int] = set()
        # By cluster: the results of the schedule's steps, without the clients, as (label, cluster,
        # brokers whose processes ended, progress of the schedule).
        self._fired: dict[tuple[int, bool, Cause, int], list[tuple[Label, int, int, Run]]] = {}
        self._ends: dict[int, tuple[int, Run]] = {}
        self._overdue: dict[tuple[int, float, int], bool] = {}  # see `_in_time`
        self._noted: set[int] = set()

    def run(self) -> Exploration:
        try:
            initial, stepping = self._model.initial(), self._exploration.stepping
            start = stepping.number(*stepping.pair(initial))
            self._enter(start, initial.run, -1, ("start",))
            while self._entries:
                # Every step of the schedule adds one to this sum, so a layer comes after all layers
                # that lead to it.
                layer = min(self._entries, key=lambda key: key[0] + key[1].bit_count() + key[2])
                self._advance(layer, self._members(layer))
        except _OutOfStatesError:
            self._exploration.complete = False
        return self._exploration

    def _enter(self, index: int, run: Run, before: int, label: Label) -> None:
        """Add a state of a later layer, or a shorter trace to it."""
        depth = self._depth[before] + 1 if before >= 0 else 0
        if index == len(self._depth):
            self._add(before, label, depth)
            self._entries[run.injected, run.healed, run.over].append(index)
        elif depth < self._depth[index]:
            self._depth[index] = depth
            self._exploration.parents[index] = before, label

    def _add(self, before: int, label: Label, depth: int) -> None:
        """Add the next state; states are numbered in the order of their discovery."""
        if len(self._depth) >= self._max_states:
            raise _OutOfStatesError
        self._exploration.parents.append((before, label))
        self._depth.append(depth)

    def _members(self, layer: Layer) -> list[int]:
        entries = self._entries.pop(layer)
        self._before, self._before_by_timer = defaultdict(list), defaultdict(list)
        self._learned, self._sources = defaultdict(list), set()
        return entries if self._passes(layer) else self._close(layer, entries)

    def _close(self, layer: Layer, entries: list[int]) -> list[int]:
        """Take all steps within the layer, nearest states first; return the layer's states."""
        exploration, faults = self._exploration, self._model.faults
        only_ends, more = self._only_ends(layer), not self._is_last(layer)
        buckets: dict[int, list[int]] = defaultdict(list)
        for index in entries:
            buckets[self._depth[index]].append(index)
        members: list[int] = []
        done: set[int] = set()
        depth = min(buckets)
        while any(buckets.values()):
            following = buckets[depth + 1]
            for index in buckets.pop(depth, ()):
                if index in done:
                    continue
                done.add(index)
                if only_ends and exploration.state(index).run.phase == faults:
                    self._end(index, ("end",))
                else:
                    members.append(index)
                    following += self._expand(index, more=more)
            depth += 1
        return members

    def _expand(self, index: int, *, more: bool) -> list[int]:
        """Take all steps from a state; return the states that are nearest by these.

        more: steps of the schedule follow, which need the predecessors within the layer.
        """
        depths, parents, before = self._depth, self._exploration.parents, self._before
        depth = depths[index] + 1
        nearest: list[int] = []
        steps = self._exploration.stepping.steps(index)
        if steps:
            self._sources.add(index)
        for label, other, timer in steps:
            if other == len(depths):
                self._add(index, label, depth)
                nearest.append(other)
            elif depth < depths[other]:
                depths[other] = depth
                parents[other] = index, label
                nearest.append(other)
            if not more:
                continue
            if timer is not None:
                self._before_by_timer[other].append((index, timer))
                continue
            before[other].append(index)
            if label[0] == "learn":
                self._learned[index].append(other)
        return nearest

    def _due(self, layer: Layer) -> int | None:
        """Return the first fault that is to be healed at once; None if there is none."""
        injected, healed, _ = layer
        faults = _to_heal(self._model, injected, healed) if self._model.ordered else ()
        heals = (Pending(self._model, fault, heals=True) for fault in faults)
        return next((one.fault for one in heals if one.due_in(injected, healed)), None)

    def _passes(self, layer: Layer) -> bool:
        """Whether a layer ends at once, because its last fault has no effects."""
        injected = layer[0]
        return bool(injected and not self._model.schedule[injected - 1].effects) and (
            self._due(layer) is not None
        )

    def _only_ends(self, layer: Layer) -> bool:
        """Whether only faults without a heal condition are left.

        Then the run ends at once in the states in which every fault is verified.
        """
        injected, healed, _ = layer
        healing = _to_heal(self._model, injected, healed)
        return healed != (1 << injected) - 1 and not healing

    def _is_last(self, layer: Layer) -> bool:
        """Whether no step of the schedule follows."""
        injected, healed, over = layer
        return over or (injected == self._model.faults and healed == (1 << injected) - 1)

    def _advance(self, layer: Layer, members: list[int]) -> None:
        """Take the schedule's steps from a complete layer, and judge its final states."""
        model = self._model
        injected, healed, _ = layer
        unhealable = set(members)  # states in which no fault meets its own heal condition
        due = self._due(layer)
        for fault in _to_heal(model, injected, healed):
            if due is None or fault <= due:
                unhealable &= self._fire(Pending(model, fault, heals=True), members)
        if due is not None:
            return  # due faults are healed first, the oldest first
        if self._is_last(layer):
            self._judge(members)
        elif injected == model.faults:
            for index in unhealable:
                self._end(index, ("end",))
        else:
            never = self._fire(Pending(model, injected, heals=False), members)
            for index in never & unhealable:
                self._end(index, ("give up", injected))

    def _end(self, index: int, label: Label) -> None:
        """End the run: heal every fault in force, the newest first."""
        cluster, client = self._exploration.stepping.pairs[index]
        known = self._ends.get(cluster)
        stepping = self._exploration.stepping
        if known is None:
            after = self._ended(self._exploration.state(index))
            known = self._ends[cluster] = stepping.cluster(after), after.run
        number, run = known
        if run.phase < run.injected:
            return  # a controlled shutdown is still in progress
        if not self._exploration.stepping.moving(index):
            self._note(index)
        self._enter(stepping.standing_for(number, client), run, index, label)

    def _ended(self, state: State) -> State:
        over = state.run.injected < self._model.faults
        after = state._replace(run=state.run._replace(over=over))
        for fault in reversed(range(state.run.injected)):
            if not state.run.healed >> fault & 1:
                after = heal(self._model, after, fault)
        return after

    def _fire(self, pending: Pending, members: list[int]) -> set[int]:
        """Inject or heal in all states that allow it; return those in which it never happens."""
        model, wait = self._model, pending.wait
        ready = self._where(members, lambda state: pending.ready(model, state))
        if pending.time_only:
            for index in ready:
                if self._in_time(pending, index, wait.at_least):
                    self._schedule_step(pending, index, Cause.TIME)
            return set(members) - self._reaching(ready, lambda _: True)

        state = self._exploration.state
        goals = due = self._where(ready, lambda state: pending.due_in_cluster(model, state))
        if pending.awaits_clients:
            goals = [index for index in due if pending.due(model, state(index))]
        for index in goals:
            if self._in_time(pending, index, wait.elapsed):
                self._schedule_step(pending, index, Cause.CONDITIONS)

        if pending.counts_progress:
            # Records of other partitions count, too: they are acked while this one waits.
            prompt = self._reaching(goals, lambda _: False)
            for index in due:
                if (
                    index not in prompt
                    and pending.due(model, state(index), elsewhere=True)
                    and self._in_time(pending, index, wait.elapsed)
                ):
                    self._schedule_step(pending, index, Cause.ELSEWHERE)

        if wait.or_after is None:
            return set(members) - self._reaching(goals, lambda _: True)
        seconds = wait.or_after
        awaited = self._reaching(
            goals,
            lambda timer: model.must_have_fired(timer, pending.reference, seconds),
        )
        for index in ready:
            if index not in awaited and self._in_time(pending, index, seconds):
                self._schedule_step(pending, index, Cause.TIME)
        return set(members) - self._reaching(ready, lambda _: True)

    def _where(self, among: Iterable[int], holds: Callable[[State], bool]) -> list[int]:
        """Return the states for which `holds`, which reads the cluster only."""
        exploration = self._exploration
        known: dict[int, bool] = {}
        chosen = []
        for index in among:
            cluster, _ = exploration.stepping.pairs[index]
            if cluster not in known:
                known[cluster] = holds(exploration.state(index))
            if known[cluster]:
                chosen.append(index)
        return chosen

    def _note(self, index: int) -> None:
        """Store whether the partition can be read and written at the end of a part."""
        cluster, _ = self._exploration.stepping.pairs[index]
        if cluster not in self._noted:
            self._noted.add(cluster)
            state = self._exploration.state(index)
            layer = state.run.injected, state.run.healed, state.run.over
            self._exploration.available[layer].add((readable(state), writable(self._model, state)))

    def _schedule_step(self, pending: Pending, index: int, cause: Cause) -> None:
        stepping = self._exploration.stepping
        if cause is not Cause.TIME or not stepping.moving(index):
            self._note(index)
        cluster, client = stepping.pairs[index]
        key = pending.fault, pending.heals, cause, cluster
        fired = self._fired.get(key)
        if fired is None:
            state = self._exploration.state(index)
            fired = self._fired[key] = [
                (
                    (*label, cause),
                    stepping.cluster(after),
                    _ended_processes(state, after),
                    after.run,
                )
                for label, after in pending.fire(self._model, state)
            ]
        for label, number, ended, run in fired:
            there = stepping.disconnected(cluster, client, ended) if ended else client
            self._enter(stepping.standing_for(number, there), run, index, label)

    def _in_time(self, pending: Pending, index: int, seconds: float) -> bool:
        """Whether no timer is overdue `seconds` after the fault from which `pending` counts.

        Nor in the states after brokers have learned metadata, which takes no time.
        """
        stepping = self._exploration.stepping
        key = pending.reference, seconds, stepping.pairs[index][0]
        overdue = self._overdue.get(key)
        if overdue is None:
            overdue = self._overdue[key] = any(
                self._model.must_have_fired(timer, pending.reference, seconds)
                for timer in stepping.timers(index)
            )
        if overdue:
            return False
        learned = self._learned.get(index)
        return not learned or all(self._in_time(pending, other, seconds) for other in learned)

    def _reaching(self, goals: Iterable[int], counts: Callable[[Timer], bool]) -> set[int]:
        """Return the states from which steps lead to `goals`: without a timer, or `counts` it."""
        reached = set(goals)
        frontier = list(reached)
        before, by_timer = self._before, self._before_by_timer
        while frontier:
            index = frontier.pop()
            earlier = before.get(index, ())
            if index in by_timer:
                earlier = [*earlier, *(one for one, timer in by_timer[index] if counts(timer))]
            for one in earlier:
                if one not in reached:
                    reached.add(one)
                    frontier.append(one)
        return reached

    def _judge(self, members: list[int]) -> None:
        model, exploration = self._model, self._exploration
        for index in members:
            state = exploration.state(index)
            if not settled(model, state):
                if index not in self._sources:
                    exploration.stuck += 1
                    self._note(index)
                continue
            exploration.final += 1
            if not self._exploration.stepping.moving(index):
                self._note(index)
            exploration.at_risk.update(model.phases[record] for record in lost(model, state))
            for name in anomalies(model, state):
                exploration.having[name] += 1
                first = exploration.first.get(name)
                if first is None or self._depth[index] < self._depth[first]:
                    exploration.first[name] = index


def _ended_processes(before: State, after: State) -> int:
    """Return the brokers whose processes ended, which their clients notice."""
    brokers = zip(before.brokers, after.brokers, strict=True)
    return sum(1 << n for n, (was, now) in enumerate(brokers) if was.alive and now.status == DOWN)


def _to_heal(model: Model, injected: int, healed: int) -> list[int]:
    """Return the faults in force that have a heal condition or `heal_or_after`."""
    return [
        fault
        for fault in range(injected)
        if not healed >> fault & 1 and model.schedule[fault].heals_by_itself
    ]
