"""Whom a fault hits: a role that is resolved when the fault begins, or brokers by id.

``leader of orders-0``, ``followers of orders-0``, ``all``, ``2``, ``[1, 3]``; drawn from the seed:
``any broker``, ``any 2 brokers``; who decides over metadata: ``active controller``, ``minority of
controllers``, ``majority of controllers``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ackproof_faults.interfaces.cluster import Cluster

Role = Literal[
    "leader",
    "followers",
    "all",
    "brokers",
    "any",
    "active controller",
    "minority of controllers",
    "majority of controllers",
]

#: A Kafka topic name (`org.apache.kafka.common.internals.Topic`), then a partition number.
TOPIC_PARTITION = r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>[0-9]+)"
_ROLE = re.compile(rf"(?P<role>leader|followers) of {TOPIC_PARTITION}")
_ANY = re.compile(r"any (?:broker|(?P<count>[1-9][0-9]*) brokers)")
_CONTROLLERS: tuple[Role, ...] = (
    "active controller",
    "minority of controllers",
    "majority of controllers",
)
_LEGAL = (
    "'leader of TOPIC-N', 'followers of TOPIC-N', 'all', 'any broker', 'any N brokers', "
    "'active controller', 'minority of controllers', 'majority of controllers', a broker id, or "
    "a list of broker ids"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A target as written: a role of one partition, brokers, or controllers.

    `any` is `count` brokers that a schedule draws from its seed before the fault begins.
    """

    role: Role
    topic: str = ""
    partition: int = 0
    brokers: tuple[int, ...] = ()
    count: int = 0

    @property
    def of_controllers(self) -> bool:
        """Whether it names who decides over metadata, not brokers."""
        return self.role in _CONTROLLERS

    def resolve(self, cluster: Cluster) -> tuple[int, ...]:
        """Return the node ids the target means now; empty if the role has no holder."""
        if self.role == "brokers":
            return self.brokers
        if self.role == "all":
            return tuple(cluster.metadata.broker_ids())
        if self.of_controllers:
            return _controllers(self.role, cluster)
        leader = None if self.role == "any" else cluster.metadata.leader(self.topic, self.partition)
        if leader is None:
            return ()
        if self.role == "leader":
            return (leader,)
        return tuple(
            b for b in cluster.metadata.replicas(self.topic, self.partition) if b != leader
        )

    def __str__(self) -> str:
        """Return the target as a scenario writes it."""
        if self.role == "all":
            return "all"
        if self.role == "any":
            return "any broker" if self.count == 1 else f"any {self.count} brokers"
        if self.of_controllers:
            return self.role
        if self.role == "brokers":
            return "broker " + ", ".join(map(str, self.brokers))
        return f"{self.role} of {self.topic}-{self.partition}"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate instances only (text is parsed before), and write them as text."""
        return core_schema.is_instance_schema(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(_as_written)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Publish what a scenario may write."""
        return {
            "anyOf": [
                {"type": "string", "pattern": _WRITTEN},
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
            ]
        }


_PLAIN = r"[A-Za-z0-9._-]+-[0-9]+"
_WRITTEN = (
    rf"^(all|(leader|followers) of {_PLAIN}|any (broker|[1-9][0-9]* brokers)"
    rf"|{'|'.join(_CONTROLLERS)})$"
)


def _controllers(role: Role, cluster: Cluster) -> tuple[int, ...]:
    """Return the active controller first: a majority without it would leave the old one alone."""
    voters, active = list(cluster.controllers.ids()), cluster.controllers.active()
    if role == "active controller":
        return () if active is None else (active,)
    majority = len(voters) // 2 + 1
    ranked = sorted(voters, key=lambda one: (one != active, one))
    return tuple(ranked[: majority if role == "majority of controllers" else majority - 1])


def _as_written(target: TargetSpec) -> str | list[int]:
    return list(target.brokers) if target.role == "brokers" else str(target)


def parse_target(value: object) -> TargetSpec:
    """Return the target that `value` (text, an id or a list of ids) names.

    Raises ValueError with the value and the legal set.
    """
    if isinstance(value, TargetSpec):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return TargetSpec(role="brokers", brokers=(value,))
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return TargetSpec(role="brokers", brokers=tuple(value))
    for fixed in ("all", *_CONTROLLERS):
        if value == fixed:
            return TargetSpec(role=fixed)
    if isinstance(value, str) and (drawn := _ANY.fullmatch(value)):
        return TargetSpec(role="any", count=int(drawn["count"] or 1))
    match = _ROLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a target ({_LEGAL})")
    role: Literal["leader", "followers"] = "leader" if match["role"] == "leader" else "followers"
    return TargetSpec(role=role, topic=match["topic"], partition=int(match["partition"]))


Target = Annotated[TargetSpec, BeforeValidator(parse_target)]
