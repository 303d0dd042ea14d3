"""Sample the random parts of a schedule from the scenario's seed.

Each choice has its own random generator, seeded with the seed, the path of the step in the file and
the turn of a loop. So the schedule depends on the seed only, not on the timing of a run.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.fault import Fault
from ackproof_faults.schedule.blocks import (
    ChoiceBlock,
    ParallelBlock,
    RandomBlock,
    SequenceBlock,
    every_fault,
)

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSequence:
    """Steps in order."""

    steps: tuple[SampledStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledParallel:
    """Branches that begin together."""

    branches: tuple[SampledSequence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLoop:
    """A loop; `Sampler.turn` samples each turn when it begins."""

    block: SequenceBlock
    path: str


SampledStep = Fault | SampledSequence | SampledParallel | SampledLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Samples steps; `brokers` are the node ids that `any broker` is drawn from."""

    seed: int
    brokers: tuple[int, ...]

    def schedule(self, steps: Sequence[Step], path: str = "faults") -> SampledSequence:
        """Return the steps with all choices made, except those in a loop's turn."""
        return SampledSequence(
            steps=tuple(self._step(step, f"{path}.{index}") for index, step in enumerate(steps))
        )

    def turn(self, loop: SampledLoop, number: int) -> SampledSequence | None:
        """Return a turn of a loop; None if its `probability` skips the turn."""
        path = f"{loop.path}.turn-{number}"
        if self._random(path).random() >= loop.block.probability:
            return None
        return self.schedule(loop.block.sequence, path)

    def _step(self, step: Step, path: str) -> SampledStep:
        match step:
            case SequenceBlock() if step.loops:
                return SampledLoop(block=step, path=path)
            case SequenceBlock():
                return self.turn(SampledLoop(block=step, path=path), 0) or SampledSequence(steps=())
            case ParallelBlock():
                branches = [
                    self.schedule([branch], f"{path}.{index}")
                    for index, branch in enumerate(step.parallel)
                ]
                return SampledParallel(branches=tuple(branches))
            case ChoiceBlock():
                weights = step.weights or None
                (index,) = self._random(path).choices(range(len(step.one_of)), weights)
                return self._step(step.one_of[index], f"{path}.{index}")
            case RandomBlock():
                # Each fault is a block, so that a pause counts from the recovery of the last fault.
                faults = self._nemesis(step, path)
                return SampledSequence(
                    steps=tuple(SampledSequence(steps=(fault,)) for fault in faults)
                )
        fault: Fault = step
        return self._with_target(fault, path)

    def _nemesis(self, block: RandomBlock, path: str) -> list[Fault]:
        """Return the faults of a nemesis, each with the pause before it and its duration."""
        generator = self._random(path)
        faults: list[Fault] = []
        used = 0.0
        while True:
            (fault,) = generator.choices(block.random, block.weights or None)
            lasting = round(generator.uniform(*block.lasting), 3)
            stable = round(block.pause_before(lasting, generator.uniform(*block.stable)), 3)
            if used + lasting + stable > block.for_:
                if faults:
                    return faults
                lasting = block.lasting[0]  # the nemesis has at least one fault
                stable = block.pause_before(lasting, block.stable[0])
            used += lasting + stable
            timed = fault.model_copy(update={"or_after": stable, "heal_after": lasting})
            faults.append(self._with_target(timed, f"{path}.{len(faults)}"))

    def _with_target(self, fault: Fault, path: str) -> Fault:
        if fault.target.role != "any":
            return fault
        count = min(fault.target.count, len(self.brokers))
        sampled = self._random(f"{path}.target").sample(self.brokers, count)
        target = TargetSpec(role="brokers", brokers=tuple(sorted(sampled)))
        return fault.model_copy(update={"target": target})

    def _random(self, path: str) -> random.Random:
        return random.Random(f"{self.seed}:{path}")  # noqa: S311 - repeatable, not secret


class Times(NamedTuple):
    """A number of times from `least` up to and including `most`."""

    least: int
    most: float


def times_begun(steps: Sequence[Step], *, seed: int) -> dict[str, Times]:
    """Return how often each fault begins, by name; a loop may have no turn.

    Names that the seed does not draw are absent.
    """
    least: Counter[str] = Counter()
    most: dict[str, float] = {}
    sampled = Sampler(seed=seed, brokers=()).schedule(steps)
    for step in flat(sampled.steps):
        if isinstance(step, Fault):
            least[step.name] += 1
            most[step.name] = most.get(step.name, 0) + 1
        else:
            for name, count in _most_of(step).items():
                most[name] = most.get(name, 0) + count
    return {name: Times(least[name], most[name]) for name in most}


def flat(steps: Sequence[SampledStep]) -> Iterator[Fault | SampledLoop]:
    """Yield the faults and loops of the steps and their blocks."""
    for step in steps:
        if isinstance(step, Fault | SampledLoop):
            yield step
        elif isinstance(step, SampledParallel):
            yield from flat(step.branches)
        else:
            yield from flat(step.steps)


def _most_of(loop: SampledLoop) -> dict[str, float]:
    block = loop.block
    names = Counter(fault.name for fault in every_fault(block.sequence))
    drawn = not all(isinstance(step, Fault) for step in block.sequence)
    turns = math.inf if drawn or block.repeat is None else block.repeat
    return {name: turns * count for name, count in names.items()}
