"""The cluster, clocks, limits and faults that all steps of a running schedule share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.observation import (
    Observation,
    ObservationHistory,
    ReferencePoint,
    SendCounts,
)
from ackproof_faults.conditions.trigger import Conditions
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.guard import Guard
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.schedule.limits import BlastRadius, undoes
from ackproof_faults.schedule.sampling import Sampler

Leaders = dict[tuple[str, int], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """A fault that was injected; its `heal_when` counts from `reference`."""

    guard: Guard
    reference: ReferencePoint

    @property
    def healed(self) -> bool:
        return self.guard.window.healed_at is not None

    @property
    def recovered(self) -> bool:
        """Whether a check has seen that everything that the fault touched works again."""
        return self.guard.window.recovered_at is not None

    def __str__(self) -> str:
        return str(self.guard.fault)


@dataclass(slots=True, kw_only=True)
class ScheduleContext:
    """The cluster, the clocks, and every fault so far in order of injection.

    `sends` counts the sends so far; `clock` returns UTC time for the windows, `monotonic` seconds
    for conditions on time. The leaders of `partitions` are noted before every injection, for
    `leader of T-P changed`. Random choices are sampled from `seed`.
    """

    cluster: Cluster
    partitions: Sequence[tuple[str, int]]
    sends: Callable[[], SendCounts]
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    seed: int = 0
    blast_radius: BlastRadius = field(default_factory=BlastRadius)
    injected: list[InjectedFault] = field(default_factory=list)
    #: Why a fault that is due waits for the recovery of others; '' if none does.
    held_back: str = ""
    sampler: Sampler = field(init=False)
    _history: ObservationHistory = field(init=False)

    def __post_init__(self) -> None:
        brokers = tuple(self.cluster.metadata.broker_ids())
        self.sampler = Sampler(seed=self.seed, brokers=brokers)
        self._history = ObservationHistory(self.cluster, self.monotonic)

    def reference(self, leaders: Leaders) -> ReferencePoint:
        """Return the current moment as a reference point with these leaders."""
        return ReferencePoint(
            sends=self.sends(), monotonic_s=self.monotonic(), at=self.clock(), leaders=leaders
        )

    def leaders(self, known: Leaders) -> Leaders:
        """Return each partition's leader, or the last known one if it is missing or unknown now.

        Frozen brokers may not answer. Without a leader to compare with, `changed` never holds.
        """
        return {
            partition: known.get(partition) if leader is None else leader
            for partition, leader in self.cluster.metadata.leaders(self.partitions).items()
        }

    def due(
        self,
        conditions: Conditions,
        at_latest_s: float | None,
        *,
        reference: ReferencePoint,
        first_window: int = 0,
    ) -> str | None:
        """Return the conditions or the time limit that is met, as text; None if neither is met.

        Conditions on other faults use the windows from index `first_window` on.
        """
        observation = self._observe(reference, first_window)
        if (conditions or at_latest_s is None) and conditions.hold(observation):
            return str(conditions)
        if at_latest_s is not None and observation.elapsed_s() >= at_latest_s:
            return f"after {format_duration(at_latest_s)}"
        return None

    def unmet(
        self, conditions: Conditions, *, reference: ReferencePoint, first_window: int = 0
    ) -> str:
        return conditions.unmet(self._observe(reference, first_window))

    def _observe(self, reference: ReferencePoint, first_window: int) -> Observation:
        windows = [(one.guard.fault.id, one.guard.window) for one in self.injected[first_window:]]
        return Observation(
            cluster=self.cluster,
            history=self._history,
            sends=self.sends(),
            now_s=self.monotonic(),
            reference=reference,
            windows=windows,
        )

    def may_begin(self, fault: Fault, earlier: Sequence[InjectedFault]) -> bool:
        """Whether the fault may begin now; if not, it waits for the recovery of others.

        `earlier`: the faults before it in its sequence. Those without `heal_when` and `heal_after`
        last until the sequence ends. Raises FaultError if the fault can never begin, or would undo
        a fault in force.
        """
        nodes = fault.target.resolve(self.cluster)
        in_force = [one for one in self.injected if not one.healed]
        for one in in_force:
            shared = sorted(set(nodes) & set(one.guard.window.nodes))
            if shared and undoes(fault, one.guard.fault):
                where = ", ".join(map(str, shared))
                raise FaultError(f"{fault} would undo another fault: {one} is in force at {where}")
        if not fault.disables:
            return True
        unrecovered = [one for one in self.injected if not one.recovered]
        disabled = {
            node
            for one in unrecovered
            if one.guard.fault.disables
            for node in one.guard.window.nodes
        }
        limit = self.blast_radius.exceeded([*nodes, *disabled], self.cluster)
        if not limit:
            return True
        problem = f"{fault} would hit more than {limit} allows"
        if self.blast_radius.exceeded(nodes, self.cluster):
            raise FaultError(problem)
        lasting = [one for one in earlier if not one.healed and not one.guard.fault.ends_by_itself]
        if len(lasting) == len(unrecovered):
            names = ", ".join(map(str, lasting))
            raise FaultError(f"{problem}, and {names} in force will not end before it")
        self.held_back = problem
        return False
