"""A broker's clock jumps forward or back, stays wrong, and jumps back when it is healed.

`_broker_clock` lists what depends on it. The brokers need `cluster.clock: adjustable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from ackproof_faults.conditions.durations import Duration, Offset
from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._broker_clock import clock_offset
from ackproof_faults.process._nodes import require_running
from ackproof_model.effects import Effects, Skews

#: Clocks that differ by less count as equal, seconds.
_TOLERANCE_S = 1.0


class SkewClock(Fault):
    """Set the clocks of running brokers wrong; heal sets them right."""

    name: ClassVar[str] = "skew_clock"
    requires: ClassVar[InterfaceNames] = ("metadata", "processes", "network", "logs", "clocks")
    explained: ClassVar[bool] = True
    skews_clocks: ClassVar[bool] = True
    fault: Literal["skew_clock"] = "skew_clock"
    proof: ClassVar[str] = "the time of a line that the broker is made to log"
    by: Offset = Field(
        description="how far the clocks are ahead, or behind if negative; at least 5 s",
        examples=["90m", "-90m"],
    )
    within: Duration = Field(default=10.0, gt=0, description="how long to wait for a log line")

    @property
    def effects(self) -> Effects:
        return (Skews(by=self.by),)

    @field_validator("by")
    @classmethod
    def _large_enough(cls, by: float) -> float:
        if abs(by) < 5 * _TOLERANCE_S:
            raise ValueError(f"{by:g} s could also be a slow machine: write 5s or more")
        return by

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if not shape.own_clocks:
            yield "fault", "skew_clock needs adjustable clocks: set cluster.clock: adjustable"
        if self.target.of_controllers or set(shape.controllers) & set(shape.brokers):
            yield (
                "target",
                "the controllers' clocks date the run's events: only brokers that are not "
                "controllers can have wrong clocks",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.clocks.shift(node, self.by)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node in nodes:
            least, most = clock_offset(cluster, node, within_s=self.within)
            if not least - _TOLERANCE_S <= self.by <= most + _TOLERANCE_S or least <= 0 <= most:
                raise FaultError(
                    f"broker {node}'s clock is {least:.1f} to {most:.1f} s ahead, not {self.by:g} s"
                )
            proofs.append(f"broker {node} logs with a clock that is {most:+.1f} s off")
        return Evidence(text="; ".join(proofs))

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        for node in nodes:
            cluster.clocks.shift(node, 0)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        if not super().verify_healed(cluster, nodes, done):
            return False
        try:
            offsets = [clock_offset(cluster, node, within_s=self.within) for node in nodes]
        except FaultError:  # another fault holds the broker
            return False
        return all(least <= _TOLERANCE_S and most >= -_TOLERANCE_S for least, most in offsets)
