"""What injecting and healing a fault does to a state, and when the schedule does it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ackproof_model.replication.controller import active, begin_shutdown, fence
from ackproof_model.replication.fault_schedule import (
    Condition,
    Elapsed,
    Injection,
    IsrSize,
    LeaderChanged,
    Progress,
    Role,
    Wait,
    heal_wait,
    injection_wait,
)
from ackproof_model.replication.model import Model
from ackproof_model.replication.producer import disconnect, is_acked
from ackproof_model.replication.replica import behind
from ackproof_model.replication.state import (
    DOWN,
    NOBODY,
    STARTING,
    STOPPING,
    UNSENT,
    UP,
    Broker,
    Label,
    State,
    members,
)


def holds(
    model: Model, state: State, condition: Condition, *, since_phase: int, leader: int
) -> bool:
    """Whether a condition holds, counted from phase `since_phase`, when `leader` led.

    `Elapsed` always holds: time is bounded by the timers that must have fired (see `search`).
    """
    match condition:
        case Progress(outcome=outcome, more=more):
            # The record that is acked at the start stands for any number of them.
            if not more or since_phase == 0:
                return True
            statuses = state.client.status[model.phases.index(since_phase) :]
            if outcome == "sent":
                return any(status != UNSENT for status in statuses)
            return any(is_acked(model, status) for status in statuses)
        case IsrSize():
            return condition.met_by(state.controller.isr.bit_count())
        case LeaderChanged():
            return state.controller.leader not in (NOBODY, leader)
        case Elapsed():
            return True


class Pending:
    """The next injection or heal that the schedule waits for."""

    def __init__(self, model: Model, fault: int, *, heals: bool) -> None:
        self.fault = fault
        self.heals = heals
        injection = model.schedule[fault]
        self.wait: Wait = heal_wait(injection) if heals else injection_wait(injection)
        #: The fault from whose verification time counts; -1 for the start of the run.
        self.reference = fault if heals else fault - 1
        #: `or_after` without conditions: it waits for time only.
        self.time_only = not self.wait.conditions and self.wait.or_after is not None

    def ready(self, model: Model, state: State) -> bool:
        """Whether the previous fault is verified, and this one has a target."""
        if self.heals:
            return self.fault < state.run.phase
        return self.fault == state.run.phase and bool(target_masks(model, state, self.fault))

    def due(self, model: Model, state: State, *, elsewhere: bool = False) -> bool:
        """Whether it is ready and its conditions hold.

        elsewhere: other partitions make the progress that it waits for.
        """
        if not self.ready(model, state):
            return False
        leader = state.run.leaders[self.reference] if self.reference >= 0 else 0
        return all(
            (elsewhere and isinstance(c, Progress))
            or holds(model, state, c, since_phase=self.reference + 1, leader=leader)
            for c in self.wait.conditions
        )

    @property
    def counts_progress(self) -> bool:
        """Whether it waits for a count of records."""
        return any(isinstance(c, Progress) for c in self.wait.conditions)

    def fire(self, model: Model, state: State) -> Iterator[tuple[Label, State]]:
        """Yield each way in which it happens, as (label, state)."""
        if self.heals:
            yield ("heal", self.fault), heal(model, state, self.fault)
            return
        for mask in target_masks(model, state, self.fault):
            for after in inject(model, state, self.fault, mask):
                yield ("inject", self.fault, mask), after


def target_masks(model: Model, state: State, fault: int) -> list[int]:
    """Return the sets of replicas that a fault may hit now; empty if it has no target."""
    injection: Injection = model.schedule[fault]
    if injection.fault == "none" or not injection.targets:
        return [0]
    leader = state.controller.leader
    if leader == NOBODY and injection.targets & {Role.LEADER, Role.FOLLOWERS}:
        return []
    fixed = state.run.targets[-1] if Role.SAME in injection.targets and state.run.targets else 0
    if Role.LEADER in injection.targets:
        fixed |= 1 << leader
    if Role.FOLLOWERS in injection.targets:
        fixed |= model.policy.everyone & ~(1 << leader)
    if Role.ANY_ONE not in injection.targets:
        return [fixed]
    masks = {fixed | 1 << replica for replica in range(model.replicas)}
    brokers = model.configuration.brokers
    if brokers is not None and brokers > model.replicas:
        masks.add(fixed)  # a broker without a replica of this partition
    return sorted(masks)


def inject(model: Model, state: State, fault: int, mask: int) -> Iterator[State]:
    """Yield the states with a fault in force; all but a controlled shutdown are verified at once.

    A power loss has several: the disk may hold more or less of the log.
    """
    run = state.run
    state = state._replace(
        run=run._replace(
            injected=fault + 1,
            phase=fault + 1,
            targets=(*run.targets, mask),
            leaders=(*run.leaders, state.controller.leader),
        )
    )
    match model.schedule[fault].fault:
        case "kill" | "power_loss" as ending:
            for number in members(mask):
                state = kill(model, state, number)
            if ending == "power_loss":
                yield from _unflushed_lost(state, members(mask))
                return
        case "restart":
            state = _stop_next(model, state)
        case "isolate_replication":
            running = sum(1 << n for n, b in enumerate(state.brokers) if b.status == UP)
            cuts = tuple(
                cut | (running & ~(1 << n) if mask >> n & 1 else 0)
                for n, cut in enumerate(state.run.cuts)
            )
            state = state._replace(run=state.run._replace(cuts=cuts))
        case "none":
            pass
    yield state


def _unflushed_lost(state: State, numbers: Sequence[int]) -> Iterator[State]:
    """Yield the states in which each of these logs keeps any prefix (`LogLoader.recover`).

    Kafka fsyncs nothing before a segment is full (`log.flush.interval.messages`), but the kernel
    may have written any part of it.
    """
    logs = [state.brokers[number].log for number in numbers]
    for lengths in itertools.product(*(range(len(log) + 1) for log in logs)):
        after = state
        for number, log, length in zip(numbers, logs, lengths, strict=True):
            down = state.brokers[number]._replace(log=log[:length])
            after = after.with_broker(number, down)
        yield after


def kill(model: Model, state: State, number: int) -> State:
    """Return the state after SIGKILL: the page cache survives, so the log stays as appended."""
    broker = state.brokers[number]
    if broker.status != UP:
        return state
    down = Broker(DOWN, False, broker.log, NOBODY, 0)
    return disconnect(model, state.with_broker(number, down), number)


def _stop_next(model: Model, state: State) -> State:
    """Begin the next controlled shutdown of the last fault; the fault is verified after all."""
    run = state.run
    fault = run.injected - 1
    for number in members(run.targets[fault]):
        broker = state.brokers[number]
        if broker.status == UP:
            state = state.with_broker(number, broker._replace(status=STOPPING))
            return state._replace(
                controller=begin_shutdown(model.policy, state.controller, number),
                run=run._replace(phase=fault),
            )
    return state._replace(run=run._replace(phase=fault + 1))


def may_exit(state: State, number: int) -> bool:
    """Whether a broker in controlled shutdown may end: it leads nothing, and all brokers know.

    `ClusterControlManager`, `BrokerHeartbeatManager.calculateNextBrokerState`.
    """
    controller = state.controller
    return controller.leader != number and not any(
        active(controller, n) and (b.status != UP or behind(b, n, controller))
        for n, b in enumerate(state.brokers)
    )


def exit_cleanly(model: Model, state: State, number: int) -> State:
    """Return the state after a controlled shutdown; the next one of the fault begins, if any."""
    down = Broker(DOWN, True, state.brokers[number].log, NOBODY, 0)
    state = disconnect(model, state.with_broker(number, down), number)
    state = state._replace(controller=fence(model.policy, state.controller, number))
    return _stop_next(model, state)


def heal(model: Model, state: State, fault: int) -> State:
    """Return the state after a fault was healed: processes started, connections restored."""
    run = state.run._replace(healed=state.run.healed | 1 << fault)
    mask = run.targets[fault]
    match model.schedule[fault].fault:
        case "kill" | "power_loss" | "restart":
            started = 0
            for number in members(mask):
                broker = state.brokers[number]
                if broker.status == DOWN:
                    started |= 1 << number
                    state = state.with_broker(number, broker._replace(status=STARTING))
            # The rules of a cut are in the network namespaces of the other brokers; a restarted
            # broker has a new namespace.
            run = run._replace(cuts=tuple(cut & ~started for cut in run.cuts))
        case "isolate_replication":
            lasting = 0
            for other, injection in enumerate(model.schedule[: run.injected]):
                if injection.fault == "isolate_replication" and not run.healed >> other & 1:
                    lasting |= run.targets[other]
            cuts = tuple(
                0 if mask >> n & 1 and not lasting >> n & 1 else cut
                for n, cut in enumerate(run.cuts)
            )
            run = run._replace(cuts=cuts)
        case "none":
            pass
    return state._replace(run=run)
