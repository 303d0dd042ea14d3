"""A guard holds one fault in force and keeps its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Self

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """When a fault really held; times are UTC, None for what did not happen (yet)."""

    fault: str
    target: str
    nodes: tuple[int, ...]
    parameters: str
    trigger: str
    injected_at: datetime
    verified_at: datetime | None = None
    healed_at: datetime | None = None
    recovered_at: datetime | None = None
    evidence: str = ""

    @property
    def verified(self) -> bool:
        """Whether the fault was proved to hold."""
        return self.verified_at is not None


class Guard:
    """One fault in force; leaving it heals, healing twice is a no-op.

    `clock` returns the current UTC time. Use `inject` to make one.
    """

    def __init__(
        self,
        fault: Fault,
        cluster: Cluster,
        nodes: Sequence[int],
        *,
        trigger: str,
        clock: Callable[[], datetime],
    ) -> None:
        self.fault = fault
        self._cluster = cluster
        self._clock = clock
        self.window = FaultWindow(
            fault=fault.name,
            target=str(fault.target),
            nodes=tuple(nodes),
            parameters=fault.model_dump_json(by_alias=True, exclude_defaults=True),
            trigger=trigger,
            injected_at=clock(),
        )

    def inject(self) -> None:
        """Inject and verify; a failure is kept as evidence, not raised: it is a result."""
        nodes = self.window.nodes
        try:
            self.fault.inject(self._cluster, nodes)
            evidence = self.fault.verify(self._cluster, nodes)
        except FaultError as error:
            self.window = replace(self.window, evidence=f"not verified: {error}")
            return
        self.window = replace(self.window, verified_at=self._clock(), evidence=evidence)

    def heal(self) -> None:
        """End the fault; raise FaultError if it cannot be ended."""
        if self.window.healed_at is not None:
            return
        self.fault.heal(self._cluster, self.window.nodes)
        self.window = replace(self.window, healed_at=self._clock())

    def recovered(self) -> bool:
        """Whether the fault is healed and everything it touched works again."""
        if self.window.recovered_at is not None:
            return True
        if self.window.healed_at is None:
            return False
        if not self.fault.verify_healed(self._cluster, self.window.nodes):
            return False
        self.window = replace(self.window, recovered_at=self._clock())
        return True

    def __enter__(self) -> Self:
        """Return the guard: the fault is in force."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Heal, whatever happened inside."""
        self.heal()


def inject(
    fault: Fault,
    cluster: Cluster,
    *,
    trigger: str = "at once",
    clock: Callable[[], datetime],
) -> Guard:
    """Resolve the fault's target, inject and verify it, and return its guard.

    Raises FaultError if the target names nobody (a partition without leader, say).
    """
    nodes = fault.target.resolve(cluster)
    if not nodes:
        raise FaultError(f"{fault.name}: {fault.target} names no broker right now")
    guard = Guard(fault, cluster, nodes, trigger=trigger, clock=clock)
    guard.inject()
    return guard
