"""What a schedule must not do: take too many nodes at once, or begin what undoes a fault in force.

A fault that would exceed the blast radius waits until others have recovered. One that would exceed
it all alone, or that nothing will ever make room for, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.schedule.blocks import ParallelBlock, SequenceBlock


def _parse_limit(value: object) -> object:
    if value == "minority" or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"{value!r} is not a limit ('minority', or a number of nodes from 0)")


Limit = Annotated[
    int | Literal["minority"],
    BeforeValidator(_parse_limit),
    WithJsonSchema({"anyOf": [{"const": "minority"}, {"type": "integer", "minimum": 0}]}),
]


class BlastRadius(BaseModel):
    """How many nodes may be hit at once, until they have recovered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    brokers: Limit | None = Field(
        default=None, description="at most so many brokers at once; minority: less than half"
    )
    controllers: Limit | None = Field(
        default=None,
        description="at most so many controllers at once; minority: the quorum is kept",
    )

    def exceeded(self, hit: Iterable[int], cluster: Cluster) -> str:
        """Say which limit these nodes exceed; '' if none."""
        nodes = set(hit)
        for name, limit in (("brokers", self.brokers), ("controllers", self.controllers)):
            if limit is None:
                continue
            members = (
                cluster.metadata.broker_ids() if name == "brokers" else cluster.controllers.ids()
            )
            most = (len(members) - 1) // 2 if limit == "minority" else limit
            if len(nodes & set(members)) > most:
                return f"blast_radius.{name}: {limit} ({most} of {len(members)})"
        return ""


def undone(
    fault: Fault, nodes: Sequence[int], others: Iterable[tuple[Fault, Sequence[int]]]
) -> str:
    """Say which fault in force this one would undo; '' if none.

    Two faults on one node undo each other if they occupy the same: a process that one fault has
    ended and another starts again, or the rules of one and the same cut.
    """
    for other, hit in others:
        shared = sorted(set(nodes) & set(hit))
        if shared and occupied(fault) == occupied(other) and fault.disables:
            where = ", ".join(map(str, shared))
            return f"{other.name} of {other.target} is in force at {where}"
    return ""


def occupied(fault: Fault) -> str:
    """Return what the fault puts out of order."""
    return fault.occupies or fault.name


def clashes(
    steps: Sequence[Any], where: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield faults that are certain to undo an earlier one, as (place, problem).

    Certain is: in one sequence, on brokers named by id, and the earlier one has no end of its own,
    so that it lasts until the sequence is over.
    """
    lasting: list[Fault] = []
    for index, step in enumerate(steps):
        place = (*where, index)
        if isinstance(step, SequenceBlock | ParallelBlock):
            inner = step.steps
            if isinstance(step, SequenceBlock):
                yield from clashes(inner, (*place, step.key))
            else:
                for number, branch in enumerate(inner):
                    yield from clashes([branch], (*place, step.key, number))
        elif isinstance(step, Fault):
            for earlier in lasting:
                both = set(step.target.brokers) & set(earlier.target.brokers)
                if both and occupied(step) == occupied(earlier) and step.disables:
                    yield (
                        place,
                        f"{step.name} of {step.target} would undo {earlier.name} of "
                        f"{earlier.target}, which has no end before it: give that one heal_when "
                        "or heal_after, or leave one out",
                    )
            if not step.ends_by_itself:
                lasting.append(step)
