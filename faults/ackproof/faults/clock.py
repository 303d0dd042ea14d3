"""A broker's clock jumps forward or back, and back again when it is healed.

Its JVM then has another time of day than the other nodes: what it stamps, expires and rolls by time
goes wrong. Monotonic time stays true, so that sessions and fetches time out as ever. The nodes must
have been started for it (`cluster.fake_clock`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from ackproof.faults.base import Cluster, Fault, FaultError
from ackproof.faults.triggers import parse_duration

#: What a clock may be off and still count as right.
_RIGHT_S = 1.0


class Clock(Fault):
    """Set the targets' clocks ahead (or, with a minus, back) while the fault holds."""

    name: ClassVar[str] = "clock"
    disables: ClassVar[bool] = False
    fault: Literal["clock"] = "clock"
    ahead: float = Field(
        description="how far the clock jumps ahead; behind, if negative",
        examples=["1m", "-30s", 3600],
        json_schema_extra={
            "type": ["string", "number"],
            "pattern": r"^-?[0-9]+(\.[0-9]+)? ?(ms|s|m)$",
        },
    )

    @field_validator("ahead", mode="before")
    @classmethod
    def _signed(cls, value: object) -> float:
        sign, length = 1.0, value
        if isinstance(value, str) and value.startswith("-"):
            sign, length = -1.0, value[1:]
        elif isinstance(value, int | float) and value < 0:
            sign, length = -1.0, -value
        ahead = sign * parse_duration(length)
        if abs(ahead) < 2 * _RIGHT_S:
            raise ValueError(f"{value!r} is too little to be told from delays (2s at least)")
        return ahead

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Move each clock."""
        for node in nodes:
            cluster.set_clock(node, self.ahead)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each JVM logs with the time it was given, against the engine's clock."""
        proofs = []
        for node in nodes:
            found = cluster.clock_ahead(node, awaited_s=self.ahead, off_s=_RIGHT_S)
            if found is None or abs(found - self.ahead) > _RIGHT_S:
                said = "logs nothing" if found is None else f"is {found:+.1f} s ahead"
                raise FaultError(f"broker {node} {said}, not {self.ahead:+g} s")
            proofs.append(f"broker {node} logs {found:+.1f} s ahead of the engine")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set each clock right."""
        for node in nodes:
            cluster.set_clock(node, 0.0)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether each JVM that runs logs with the right time."""
        running = [node for node in nodes if cluster.exit_status(node) is None]
        found = [cluster.clock_ahead(node, awaited_s=0.0, off_s=_RIGHT_S) for node in running]
        return all(ahead is not None and abs(ahead) <= _RIGHT_S for ahead in found)
