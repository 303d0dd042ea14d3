"""Faults that would undo another one in force.

Two faults on one node undo each other if they occupy the same resource: a process that one fault
has ended and another starts again, or the packet filter rules of the same cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ackproof_faults.fault import Fault
from ackproof_faults.schedule.blocks import Location, ParallelBlock, SequenceBlock


def conflict(
    fault: Fault, nodes: Sequence[int], in_force: Iterable[tuple[Fault, Sequence[int]]]
) -> str:
    """Return which fault in force this one would undo, and where; '' if none."""
    for other, hit in in_force:
        shared = sorted(set(nodes) & set(hit))
        if shared and _undoes(fault, other):
            where = ", ".join(map(str, shared))
            return f"{other} is in force at {where}"
    return ""


def certain_conflicts(
    steps: Sequence[Any], location: Location = ()
) -> Iterator[tuple[Location, str]]:
    """Yield the location of each fault that is certain to undo an earlier one, and the problem.

    A conflict is certain if both faults are in one sequence, on a broker named by id, and the
    earlier one has no end of its own: it lasts until the sequence is over.
    """
    lasting: list[Fault] = []
    for index, step in enumerate(steps):
        here = (*location, index)
        if isinstance(step, SequenceBlock):
            yield from certain_conflicts(step.steps, (*here, step.key))
        elif isinstance(step, ParallelBlock):
            for number, branch in enumerate(step.steps):
                yield from certain_conflicts([branch], (*here, step.key, number))
        elif isinstance(step, Fault):
            for earlier in lasting:
                both = set(step.target.brokers) & set(earlier.target.brokers)
                if both and _undoes(step, earlier):
                    yield (
                        here,
                        f"{step} would undo {earlier}, which has no end before it: give that one "
                        "heal_when or heal_after, or leave one out",
                    )
            if not step.ends_by_itself:
                lasting.append(step)


def _undoes(fault: Fault, other: Fault) -> bool:
    """Whether the faults occupy the same resource of a node that both hit."""
    return fault.disables and (fault.occupies or fault.name) == (other.occupies or other.name)
