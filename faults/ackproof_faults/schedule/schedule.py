"""A schedule of faults: each fault begins and is healed on its triggers, and recovers.

The code that runs the workload calls `Schedule.tick` every few milliseconds. It never sleeps and
never waits for a condition, so that Ctrl-C and a workload that ends are noticed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ackproof_faults.evidence import FaultError, FaultWindow
from ackproof_faults.schedule.context import ScheduleContext
from ackproof_faults.schedule.runners import SequenceRunner

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


class Schedule(SequenceRunner):
    """Runs a list of steps (faults, and blocks of them) against one cluster."""

    def __init__(self, steps: Sequence[Step], context: ScheduleContext) -> None:
        super().__init__(context, context.sampler.schedule(steps).steps)

    @property
    def windows(self) -> list[FaultWindow]:
        """The window of every fault so far, in order of injection."""
        return [one.guard.window for one in self._context.injected]

    @property
    def in_force(self) -> list[str]:
        """The faults that are verified and not healed, in words."""
        injected = self._context.injected
        return [str(one) for one in injected if one.guard.window.verified and not one.healed]

    @property
    def waiting_for(self) -> str:
        """What the schedule waits for, in words, for progress and error messages."""
        return self._context.held_back or super().waiting_for or self._recovering or "nothing"

    @property
    def held_back(self) -> str:
        """Why a fault that is due waits for the recovery of others; '' if none does."""
        return self._context.held_back

    @property
    def _recovering(self) -> str:
        unrecovered = (one for one in self._context.injected if not one.recovered)
        return next((f"recovery from {one}" for one in unrecovered), "")

    def tick(self) -> None:
        """Inject, heal and check recovery, as far as conditions allow now.

        Raises FaultError if no node has the role of a fault's target, a fault cannot be healed, a
        fault would undo another, or no recovery can make room for it in the blast radius.
        """
        self._context.held_back = ""
        super().tick()
        self.check_recovered()

    def heal_all(self) -> None:
        """Cancel the faults that have not begun, and heal those in force, the newest first.

        Raises FaultError, after trying all, if a fault cannot be healed.
        """
        self.stop()
        errors = []
        for one in reversed(self._context.injected):
            try:
                one.guard.heal()
            except FaultError as error:
                errors.append(f"{one}: {error}")
        if errors:
            raise FaultError("not healed: " + "; ".join(errors))

    def check_recovered(self) -> bool:
        """Check every injected fault; return whether all are healed and have recovered."""
        recovered = [one.guard.recovered() for one in self._context.injected]
        return all(recovered)
