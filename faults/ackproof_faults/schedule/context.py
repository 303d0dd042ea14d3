"""What all steps of a running schedule share: the cluster, clocks, faults, and their limits.

Limits are the blast radius, and conflicts of two faults on a resource of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.kinds import ProgressIs
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
from ackproof_faults.schedule.blocks import Location, ParallelBlock, SequenceBlock
from ackproof_faults.schedule.sampling import Sampler


def _parse_limit(value: object) -> object:
    if value == "minority" or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"{value!r} is not a limit ('minority', or a number of nodes from 0)")


Limit = Annotated[
    int | Literal["minority"],
    BeforeValidator(_parse_limit),
    WithJsonSchema({"anyOf": [{"const": "minority"}, {"type": "integer", "minimum": 0}]}),
]


class BlastRadius(BaseModel):
    """The most nodes that may be hit at once; a node counts until it has recovered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    brokers: Limit | None = Field(
        default=None, description="at most so many brokers at once; minority: less than half"
    )
    controllers: Limit | None = Field(
        default=None,
        description="at most so many controllers at once; minority: the quorum is kept",
    )

    def exceeded(self, nodes: Iterable[int], cluster: Cluster) -> str:
        """Return the limit that hitting these nodes at once exceeds; '' if none."""
        hit = set(nodes)
        for name, limit in (("brokers", self.brokers), ("controllers", self.controllers)):
            if limit is None:
                continue
            brokers = name == "brokers"
            members = cluster.metadata.broker_ids() if brokers else cluster.controllers.ids()
            most = (len(members) - 1) // 2 if limit == "minority" else limit
            if len(hit & set(members)) > most:
                return f"blast_radius.{name}: {limit} ({most} of {len(members)})"
        return ""


def certain_conflicts(
    steps: Sequence[Any], location: Location = ()
) -> Iterator[tuple[Location, str]]:
    """Yield the location of each fault that certainly undoes an earlier one, and the problem.

    A conflict is certain if both faults are in one sequence, on a broker named by id, and the
    earlier one has neither `heal_when` nor `heal_after`: it lasts until the sequence ends.
    """
    lasting: list[Fault] = []
    for index, step in enumerate(steps):
        here = (*location, index)
        if isinstance(step, SequenceBlock):
            yield from certain_conflicts(step.steps, (*here, step.key))
        elif isinstance(step, ParallelBlock):
            for number, branch in enumerate(step.steps):
                yield from certain_conflicts([branch], (*here, step.key, number))
        elif isinstance(step, Fault):
            for earlier in lasting:
                both = set(step.target.brokers) & set(earlier.target.brokers)
                if both and undoes(step, earlier):
                    yield (
                        here,
                        f"{step} would undo {earlier}, which has no end before it: give that one "
                        "heal_when or heal_after, or leave one out",
                    )
            if not step.ends_by_itself:
                lasting.append(step)


def undoes(fault: Fault, other: Fault) -> bool:
    """Whether the faults occupy the same resource of a node that both hit."""
    return fault.disables and (fault.occupies or fault.name) == (other.occupies or other.name)


Leaders = dict[tuple[str, int], int | None]


@dataclass(slots=True, kw_only=True)
class InjectedFault:
    """A fault that was injected; its `heal_when` counts from `reference`.

    That is its injection while it waits for its first message, and then its verification.
    """

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

    def needs_sends(
        self,
        conditions: Conditions,
        at_latest_s: float | None,
        *,
        reference: ReferencePoint,
        first_window: int = 0,
    ) -> bool:
        """Whether `due` cannot return a trigger before there are further sends."""
        observation = self._observe(reference, first_window)
        return at_latest_s is None and any(
            all(isinstance(leaf, ProgressIs) for leaf in condition.alternatives)
            and not condition.holds(observation)
            for condition in conditions
        )

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
