"""Which faults may be in force at once: the blast radius, and conflicts on a resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.schedule.blocks import Location, ParallelBlock, SequenceBlock


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
    """The most nodes that may be hit at once; a node counts until it has recovered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    brokers: Limit | None = Field(
        default=None, description="at most so many brokers at once; minority: less than half"
    )
    controllers: Limit | None = Field(
        default=None,
        description="at most so many controllers at once; minority: the quorum is kept",
    )

    def exceeded(self, nodes: Iterable[int], cluster: Cluster) -> str:
        """Return the limit that hitting these nodes at once exceeds; '' if none."""
        hit = set(nodes)
        for name, limit in (("brokers", self.brokers), ("controllers", self.controllers)):
            if limit is None:
                continue
            brokers = name == "brokers"
            members = cluster.metadata.broker_ids() if brokers else cluster.controllers.ids()
            most = (len(members) - 1) // 2 if limit == "minority" else limit
            if len(hit & set(members)) > most:
                return f"blast_radius.{name}: {limit} ({most} of {len(members)})"
        return ""


def certain_conflicts(
    steps: Sequence[Any], location: Location = ()
) -> Iterator[tuple[Location, str]]:
    """Yield the location of each fault that certainly undoes an earlier one, and the problem.

    A conflict is certain if both faults are in one sequence, on a broker named by id, and the
    earlier one has neither `heal_when` nor `heal_after`: it lasts until the sequence ends.
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
                if both and undoes(step, earlier):
                    yield (
                        here,
                        f"{step} would undo {earlier}, which has no end before it: give that one "
                        "heal_when or heal_after, or leave one out",
                    )
            if not step.ends_by_itself:
                lasting.append(step)


def undoes(fault: Fault, other: Fault) -> bool:
    """Whether the faults occupy the same resource of a node that both hit."""
    return fault.disables and (fault.occupies or fault.name) == (other.occupies or other.name)
