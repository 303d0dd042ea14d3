"""What of a schedule is drawn, and how: everything from the scenario's seed, nothing from time.

Each draw has a generator of its own, named after the seed and the place in the file (and the turn
of a loop), so that nothing that happens elsewhere in a run changes it: the same seed gives the same
schedule, also when parallel branches run at other speeds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.fault import Fault
from ackproof_faults.schedule.blocks import (
    ChoiceBlock,
    ParallelBlock,
    RandomBlock,
    SequenceBlock,
)

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Steps in order."""

    steps: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Branches that begin together."""

    branches: tuple[Once, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop; each turn is drawn when it begins, by `Draw.turn`."""

    block: SequenceBlock
    path: str


Drawn = Fault | Once | Together | Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Draws from a seed among the cluster's brokers."""

    seed: int
    brokers: tuple[int, ...]

    def schedule(self, steps: Sequence[Step], path: str = "faults") -> Once:
        """Return the steps with everything drawn that can be drawn before they begin."""
        return Once(
            steps=tuple(self._step(step, f"{path}.{index}") for index, step in enumerate(steps))
        )

    def turn(self, loop: Loop, number: int) -> Once | None:
        """Return a turn of a loop; None if its probability says no."""
        path = f"{loop.path}.turn-{number}"
        if self._random(path).random() >= loop.block.probability:
            return None
        return self.schedule(loop.block.sequence, path)

    def _step(self, step: Step, path: str) -> Drawn:
        match step:
            case SequenceBlock() if step.loops:
                return Loop(block=step, path=path)
            case SequenceBlock():
                return self.turn(Loop(block=step, path=path), 0) or Once(steps=())
            case ParallelBlock():
                branches = [
                    self.schedule([branch], f"{path}.{index}")
                    for index, branch in enumerate(step.parallel)
                ]
                return Together(branches=tuple(branches))
            case ChoiceBlock():
                weights = step.weights or None
                (index,) = self._random(path).choices(range(len(step.one_of)), weights)
                return self._step(step.one_of[index], f"{path}.{index}")
            case RandomBlock():
                # Each a block of its own: a pause counts from the recovery of the fault before.
                drawn = self._nemesis(step, path)
                return Once(steps=tuple(Once(steps=(one,)) for one in drawn))
        fault: Fault = step
        return self._with_target(fault, path)

    def _nemesis(self, block: RandomBlock, path: str) -> list[Fault]:
        """Return the faults of a nemesis, each with its pause before and its length."""
        drawing = self._random(path)
        faults: list[Fault] = []
        used = 0.0
        while True:
            (fault,) = drawing.choices(block.random, block.weights or None)
            lasting = round(drawing.uniform(*block.lasting), 3)
            stable = round(block.pause_before(lasting, drawing.uniform(*block.stable)), 3)
            if used + lasting + stable > block.for_:
                if faults:
                    return faults
                lasting = block.lasting[0]  # what was drawn is too long, and one must be
                stable = block.pause_before(lasting, block.stable[0])
            used += lasting + stable
            timed = _changed(fault, or_after=stable, heal_after=lasting)
            faults.append(self._with_target(timed, f"{path}.{len(faults)}"))

    def _with_target(self, fault: Fault, path: str) -> Fault:
        if fault.target.role != "any":
            return fault
        count = min(fault.target.count, len(self.brokers))
        drawn = self._random(f"{path}.target").sample(self.brokers, count)
        return _changed(fault, target=TargetSpec(role="brokers", brokers=tuple(sorted(drawn))))

    def _random(self, path: str) -> random.Random:
        return random.Random(f"{self.seed}:{path}")  # noqa: S311 - repeatable, not secret


def _changed(fault: Fault, **changes: Any) -> Fault:
    return fault.model_copy(update=changes)
