"""The order of faults: each begins on its trigger, ends on its trigger, and is made good.

`Schedule.tick` is called every few milliseconds by whoever runs the workload. It never sleeps
and never waits for a condition, so that Ctrl-C and a dying workload are noticed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.guard import FaultWindow
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.schedule.blast_radius import BlastRadius
from ackproof_faults.schedule.execution import InOrder, Stage
from ackproof_faults.schedule.observation import Progress, Watch
from ackproof_faults.schedule.sampling import Draw

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


class Schedule:
    """Runs a list of steps (faults, and blocks of them) against one cluster.

    `progress` counts sends now; `clock` returns UTC time for the windows, `monotonic` seconds
    for waiting. `partitions` are those whose leader is remembered before every injection, for
    `leader of T-P changed`. What is random is drawn from `seed`.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        cluster: Cluster,
        *,
        partitions: Sequence[tuple[str, int]],
        progress: Callable[[], Progress],
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        seed: int = 0,
        blast_radius: BlastRadius | None = None,
    ) -> None:
        draw = Draw(seed=seed, brokers=tuple(cluster.metadata.broker_ids()))
        self._stage = Stage(
            cluster=cluster,
            partitions=partitions,
            progress=progress,
            clock=clock,
            monotonic=monotonic,
            draw=draw,
            blast_radius=blast_radius or BlastRadius(),
            watch=Watch(cluster, monotonic),
        )
        self._steps = InOrder(self._stage, draw.schedule(steps).steps)

    @property
    def windows(self) -> list[FaultWindow]:
        """The window of every fault so far, in order of injection."""
        return [one.guard.window for one in self._stage.injected]

    @property
    def waiting(self) -> list[Fault]:
        """The faults that have not begun yet; of a loop, those of the turn under way."""
        return self._steps.waiting

    @property
    def unended(self) -> list[Fault]:
        """The faults in force whose own trigger to heal has not come true."""
        return self._steps.unended

    @property
    def done(self) -> bool:
        """Whether every fault has been injected, healed and recovered from."""
        return self._steps.over

    @property
    def waiting_for(self) -> str:
        """What the schedule is waiting for now, in words, for progress and error messages."""
        return self._stage.held_back or self._steps.waiting_for or self._recovering or "nothing"

    @property
    def held_back(self) -> str:
        """Why a fault that is due may not begin yet; '' if none is held back."""
        return self._stage.held_back

    @property
    def _recovering(self) -> str:
        for one in self._stage.injected:
            if not one.recovered:
                return f"recovery from {one.guard.window.fault} of {one.guard.window.target}"
        return ""

    def tick(self) -> None:
        """Inject, heal and check recovery, as far as conditions allow now.

        Raises FaultError if a fault's target names nobody, a fault cannot be healed, one would undo
        another, or one would exceed the blast radius for good.
        """
        self._stage.held_back = ""
        self._steps.tick()
        self.check_recovered()

    def heal_all(self) -> None:
        """Drop what has not begun and heal everything in force, the newest first.

        Raises FaultError, after having tried all, if something could not be healed.
        """
        self._steps.stop()
        errors = []
        for one in reversed(self._stage.injected):
            try:
                one.guard.heal()
            except FaultError as error:
                window = one.guard.window
                errors.append(f"{window.fault} of {window.target}: {error}")
        if errors:
            raise FaultError("not healed: " + "; ".join(errors))

    def check_recovered(self) -> bool:
        """Whether everything that was injected is healed and works again."""
        states = [one.guard.recovered() for one in self._stage.injected]  # ask all, not up to one
        return all(states)
