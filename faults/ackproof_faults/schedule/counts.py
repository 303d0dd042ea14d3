"""How often a schedule begins each of its faults, if it was not cut short."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ackproof_faults.fault import Fault
from ackproof_faults.schedule.blocks import every_fault
from ackproof_faults.schedule.sampling import SampledLoop, SampledParallel, SampledStep, Sampler

if TYPE_CHECKING:
    from ackproof_faults.schedule.blocks import Step


class Times(NamedTuple):
    """A number of times from `least` up to and including `most`."""

    least: int
    most: float


def times_begun(steps: Sequence[Step], *, seed: int) -> dict[str, Times]:
    """Return how often each fault begins, by name; a loop need not begin any turn.

    Names that the seed does not draw are absent.
    """
    least: Counter[str] = Counter()
    most: dict[str, float] = {}
    sampled = Sampler(seed=seed, brokers=()).schedule(steps)
    for step in _flat(sampled.steps):
        if isinstance(step, Fault):
            least[step.name] += 1
            most[step.name] = most.get(step.name, 0) + 1
        else:
            for name, count in _most_of(step).items():
                most[name] = most.get(name, 0) + count
    return {name: Times(least[name], most[name]) for name in most}


def _flat(steps: Sequence[SampledStep]) -> Iterator[Fault | SampledLoop]:
    for step in steps:
        if isinstance(step, Fault | SampledLoop):
            yield step
        elif isinstance(step, SampledParallel):
            yield from _flat(step.branches)
        else:
            yield from _flat(step.steps)


def _most_of(loop: SampledLoop) -> dict[str, float]:
    block = loop.block
    names = Counter(fault.name for fault in every_fault(block.sequence))
    drawn = not all(isinstance(step, Fault) for step in block.sequence)
    turns = math.inf if drawn or block.repeat is None else block.repeat
    return {name: turns * count for name, count in names.items()}
