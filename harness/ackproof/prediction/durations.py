"""For how long faults may hold, in seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ackproof_faults import Fault
from ackproof_faults.schedule.blocks import ChoiceBlock, ParallelBlock, RandomBlock, SequenceBlock
from ackproof_model.effects import Cuts, Stalls

#: A fault holds longer than it says: injecting, verifying and healing take time, seconds.
SLACK_S = 5.0


def longest_s(fault: Fault) -> float:
    return math.inf if fault.heal_after is None else fault.heal_after


def impaired_s(steps: Sequence[Any]) -> float:
    """Return for how long replicas may not hear each other, by faults that overlap or follow.

    A pause between two faults does not count: after a cut TCP waits, before it tries again, for
    about as long as the cut lasted.
    """
    return sum(map(_impaired, steps))


def _impaired(step: Any) -> float:
    match step:
        case SequenceBlock() | ParallelBlock():
            once = impaired_s(step.steps)
            return math.inf if once and isinstance(step, SequenceBlock) and step.loops else once
        case ChoiceBlock():
            return max(map(_impaired, step.steps))
        case RandomBlock():
            return step.for_ if any(map(_impaired, step.steps)) else 0.0
    fault: Fault = step
    return longest_s(fault) if any(isinstance(one, Cuts | Stalls) for one in fault.effects) else 0.0
