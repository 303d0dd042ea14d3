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
        #: Whether it is injected and has not met its first message.
        self.waiting = False
        self.window = FaultWindow(
            fault=fault.name,
            target=str(fault.target),
            nodes=tuple(nodes),
            parameters=fault.model_dump_json(by_alias=True, exclude_defaults=True),
            trigger=trigger,
            injected_at=clock(),
        )

    def begin(self) -> None:
        """Inject; verify unless the fault waits for its first message.

        A FaultError is not raised: it becomes the window's evidence.
        """
        try:
            self.done = self.fault.inject(self._cluster, self.window.nodes)
        except FaultError as error:
            self._refute(error)
            return
        self.waiting = True
        self.check()

    def check(self) -> None:
        """Verify a fault that is `waiting`, once it has met a message or its patience is over."""
        waited_s = (self._clock() - self.window.injected_at).total_seconds()
        if self.waiting and (self._met(within_s=0) or waited_s >= self.fault.patience_s):
            self._verify()

    def inject(self) -> None:
        """Inject and verify, after the first message if the fault waits for one."""
        self.begin()
        if self.waiting:
            self._met(within_s=self.fault.patience_s)
            self._verify()

    def _met(self, *, within_s: float) -> bool:
        return self.fault.await_message(self._cluster, self.window.nodes, within_s=within_s)

    def _verify(self) -> None:
        self.waiting = False
        try:
            evidence = self.fault.verify(self._cluster, self.window.nodes, self.done)
        except FaultError as error:
            self._refute(error)
            return
        self.window = replace(
            self.window,
            verified_at=self._clock(),
            evidence=evidence.text,
            facts=evidence.facts,
        )

    def _refute(self, error: FaultError) -> None:
        self.window = replace(self.window, evidence=f"not verified: {error}")

    def heal(self) -> None:
        """End the fault; raise FaultError if that fails."""
        if self.window.healed_at is not None:
            return
        if self.waiting:
            self._verify()
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
    guard = resolved(fault, cluster, trigger=trigger, clock=clock)
    guard.inject()
    return guard


def resolved(
    fault: Fault, cluster: Cluster, *, trigger: str, clock: Callable[[], datetime]
) -> Guard:
    """Return the guard of a fault with its target resolved; raises FaultError as `inject` does."""
    nodes = fault.target.resolve(cluster)
    if not nodes:
        raise FaultError(f"{fault.name}: {fault.target} names no broker at the moment")
    return Guard(fault, cluster, nodes, trigger=trigger, clock=clock)
