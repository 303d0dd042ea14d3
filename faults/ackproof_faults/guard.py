"""A guard injects one fault, heals it, and records its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from ackproof_faults.evidence import FaultError, FaultWindow
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster


class Guard:
    """One fault in force. Leaving the context heals it; healing twice changes nothing.

    `clock` returns the current UTC time. `done` is what the fault's `inject` returned, None if it
    raised an error. Use `inject` to make a guard.
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
        self.done: Any = None
        self.window = FaultWindow(
            fault=fault.name,
            target=str(fault.target),
            nodes=tuple(nodes),
            parameters=fault.model_dump_json(by_alias=True, exclude_defaults=True),
            trigger=trigger,
            injected_at=clock(),
        )

    def inject(self) -> None:
        """Inject and verify. A FaultError is not raised: it becomes the window's evidence."""
        nodes = self.window.nodes
        try:
            self.done = self.fault.inject(self._cluster, nodes)
            evidence = self.fault.verify(self._cluster, nodes, self.done)
        except FaultError as error:
            self.window = replace(self.window, evidence=f"not verified: {error}")
            return
        self.window = replace(
            self.window,
            verified_at=self._clock(),
            evidence=evidence.text,
            facts=evidence.facts,
        )

    def heal(self) -> None:
        """End the fault; raise FaultError if that fails."""
        if self.window.healed_at is not None:
            return
        self.fault.heal(self._cluster, self.window.nodes, self.done)
        self.window = replace(self.window, healed_at=self._clock())

    def recovered(self) -> bool:
        """Whether the fault is healed and everything that it touched works again."""
        if self.window.recovered_at is not None:
            return True
        if self.window.healed_at is None:
            return False
        if not self.fault.verify_healed(self._cluster, self.window.nodes, self.done):
            return False
        self.window = replace(self.window, recovered_at=self._clock())
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


def inject(
    fault: Fault,
    cluster: Cluster,
    *,
    trigger: str = "at once",
    clock: Callable[[], datetime],
) -> Guard:
    """Resolve the fault's target, inject and verify it, and return its guard.

    Raises FaultError if the target resolves to no node (a partition without a leader, for example).
    """
    nodes = fault.target.resolve(cluster)
    if not nodes:
        raise FaultError(f"{fault.name}: {fault.target} names no broker at the moment")
    guard = Guard(fault, cluster, nodes, trigger=trigger, clock=clock)
    guard.inject()
    return guard
