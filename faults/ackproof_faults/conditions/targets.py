"""The nodes that a fault hits: a role that is resolved when the fault begins, or broker ids.

``leader of orders-0``, ``followers of orders-0``, ``all``, ``2``, ``[1, 3]``; drawn from the seed:
``any broker``, ``any 2 brokers``; the brokers of an availability zone: ``rack a``; voters of the
metadata quorum: ``active controller``, ``minority of controllers``, ``majority of controllers``;
of a share group (KIP-932): ``share coordinator of workers on orders-0``. The broker that gives out
a share partition is the partition's leader: ``share leader of orders-0`` is ``leader of orders-0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ackproof_faults.conditions.condition import did_you_mean
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
    "share coordinator",
]

#: A Kafka topic name (`org.apache.kafka.common.internals.Topic`).
TOPIC = "[A-Za-z0-9._-]+"
TOPIC_PARTITION = rf"(?P<topic>{TOPIC})-(?P<partition>[0-9]+)"
_ROLE = re.compile(rf"(?:(?:share )?(?P<role>leader)|(?P<others>followers)) of {TOPIC_PARTITION}")
_COORDINATOR = re.compile(rf"share coordinator of (?P<group>\S+) on {TOPIC_PARTITION}")
_RACK = re.compile(r"rack (?P<rack>\S.*)")
_ANY = re.compile(r"any (?:broker|(?P<count>[1-9][0-9]*) brokers)")
_CONTROLLERS: tuple[Role, ...] = (
    "active controller",
    "minority of controllers",
    "majority of controllers",
)
_SCHEMA = (
    rf"^(all|((share )?leader|followers) of {TOPIC}-[0-9]+|any (broker|[1-9][0-9]* brokers)"
    rf"|share coordinator of \S+ on {TOPIC}-[0-9]+|rack \S.*|{'|'.join(_CONTROLLERS)})$"
)
_LEGAL = (
    "'leader of TOPIC-N', 'followers of TOPIC-N', 'all', 'any broker', 'any N brokers', 'rack R', "
    "'active controller', 'minority of controllers', 'majority of controllers', 'share leader of "
    "TOPIC-N', 'share coordinator of GROUP on TOPIC-N', a broker id, or "
    "a list of broker ids"
)
_WORDS = set(re.findall("[a-z]+", f"{_SCHEMA} brokers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartition:
    """A partition as a share group gets it."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A target: a role of one partition, brokers by id, controllers, or a share coordinator.

    The schedule draws the `count` brokers of `any` from its seed before the fault begins. The
    scenario fills in the `brokers` of a `rack` (`located`).
    """

    role: Role
    topic: str = ""
    partition: int = 0
    brokers: tuple[int, ...] = ()
    count: int = 0
    rack: str = ""
    shared: SharePartition | None = None

    def located(self, racks: Mapping[str, Sequence[int]]) -> TargetSpec:
        """Return the target with the brokers of its rack; `racks` has their ids."""
        return replace(self, brokers=tuple(racks.get(self.rack, ()))) if self.rack else self

    @property
    def of_controllers(self) -> bool:
        """Whether the targets are voters of the metadata quorum."""
        return self.role in _CONTROLLERS

    def resolve(self, cluster: Cluster) -> tuple[int, ...]:
        """Return the current node ids; empty if no node has the role."""
        if self.role == "brokers":
            return self.brokers
        if self.role == "all":
            return tuple(cluster.metadata.broker_ids())
        if self.of_controllers:
            return _controllers(self.role, cluster)
        broker = self._broker(cluster)
        if broker is None or self.role != "followers":
            return () if broker is None else (broker,)
        replicas = cluster.metadata.replicas(self.topic, self.partition)
        return tuple(replica for replica in replicas if replica != broker)

    def _broker(self, cluster: Cluster) -> int | None:
        """Return the leader or share coordinator of the target's partition now."""
        if self.role == "any":
            return None  # the schedule draws the brokers
        if one := self.shared:
            return cluster.metadata.share_coordinator(one.group, one.topic, one.partition)
        return cluster.metadata.leader(self.topic, self.partition)

    def __str__(self) -> str:
        if self.role == "any":
            return "any broker" if self.count == 1 else f"any {self.count} brokers"
        if self.rack:
            return f"rack {self.rack}"
        if self.role == "brokers":
            return "broker " + ", ".join(map(str, self.brokers))
        if self.role in ("leader", "followers"):
            return f"{self.role} of {self.topic}-{self.partition}"
        if self.shared is not None:
            one = self.shared
            return f"{self.role} of {one.group} on {one.topic}-{one.partition}"
        return self.role

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Accept instances (`parse_target` has parsed text before), and write them as text."""
        return core_schema.is_instance_schema(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(_as_written)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"type": "string", "pattern": _SCHEMA},
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
            ]
        }


def _controllers(role: Role, cluster: Cluster) -> tuple[int, ...]:
    """Return these voters; the active controller is always among them."""
    active = cluster.controllers.active()
    if role == "active controller":
        return () if active is None else (active,)
    voters = sorted(cluster.controllers.ids(), key=lambda node: (node != active, node))
    majority = len(voters) // 2 + 1
    return tuple(voters[: majority if role == "majority of controllers" else majority - 1])


def _as_written(target: TargetSpec) -> str | list[int]:
    named = target.role == "brokers" and not target.rack
    return list(target.brokers) if named else str(target)


def parse_target(value: object) -> TargetSpec:
    """Parse text, an id or a list of ids; raise ValueError with the legal forms."""
    if isinstance(value, TargetSpec):
        return TargetSpec(**{one.name: getattr(value, one.name) for one in fields(value)})
    if type(value) is int:
        return TargetSpec(role="brokers", brokers=(value,))
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return TargetSpec(role="brokers", brokers=tuple(value))
    target = _read(value) if isinstance(value, str) else None
    if target is None:
        hint = did_you_mean(value, _WORDS, lambda corrected: _read(corrected) is not None)
        raise ValueError(f"{value!r} is not a target{hint or f' ({_LEGAL})'}")
    return target


def _read(text: str) -> TargetSpec | None:
    for fixed in ("all", *_CONTROLLERS):
        if text == fixed:
            return TargetSpec(role=fixed)
    if rack := _RACK.fullmatch(text):
        return TargetSpec(role="brokers", rack=rack["rack"])
    if drawn := _ANY.fullmatch(text):
        return TargetSpec(role="any", count=int(drawn["count"] or 1))
    if shared := _COORDINATOR.fullmatch(text):
        group, topic, number = shared["group"], shared["topic"], int(shared["partition"])
        partition = SharePartition(group=group, topic=topic, partition=number)
        return TargetSpec(role="share coordinator", shared=partition)
    match = _ROLE.fullmatch(text)
    if match is None:
        return None
    role: Role = "leader" if match["role"] else "followers"
    return TargetSpec(role=role, topic=match["topic"], partition=int(match["partition"]))


Target = Annotated[TargetSpec, BeforeValidator(parse_target)]
