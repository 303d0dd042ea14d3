"""How many nodes the faults of a schedule may hit at once.

A fault that would exceed the blast radius waits until others have recovered. One that exceeds it
alone, or that no recovery can make room for, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ackproof_faults.interfaces.cluster import Cluster


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
