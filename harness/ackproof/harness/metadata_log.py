"""The controller's own log of what happened: partition and broker states, exact and in order.

`__cluster_metadata` is a totally ordered list of everything the controller decided. Kafka's
`DumpLogSegments` prints it; `parse` turns that text into states. The rules are those by which
every broker applies the records: `PartitionRegistration.merge` (a record that names a leader
raises the leader epoch; every change raises the partition epoch) and
`ClusterDelta`/`BrokerRegistration` for brokers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

_BATCH = re.compile(r"baseOffset: (?P<offset>\d+) .*?CreateTime: (?P<time>\d+) ")
_PAYLOAD = "| payload: "

#: What `DumpLogSegments` writes for a broker's fencing change (BrokerRegistrationFencingChange).
_FENCING = {1: "fenced", -1: "unfenced"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition from `at` on, until its next state. `leader` is -1 while there is none."""

    at: datetime
    metadata_offset: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker's registration changed: registered, fenced, unfenced or controlled-shutdown."""

    at: datetime
    metadata_offset: int
    broker: int
    state: str
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLog:
    """Every state of every partition and broker, in the controller's order."""

    partitions: tuple[PartitionState, ...]
    brokers: tuple[BrokerState, ...]


def parse(dump: str) -> MetadataLog:
    """Return the states in a dump made with `--cluster-metadata-decoder`.

    Raises ValueError if a record changes a partition that no earlier record created.
    """
    topics: dict[str, str] = {}
    now: dict[tuple[str, int], PartitionState] = {}
    partitions: list[PartitionState] = []
    brokers: list[BrokerState] = []
    for at, offset, kind, data in _records(dump):
        if kind == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
        elif kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            place = (data["topicId"], data["partitionId"])
            if kind == "PARTITION_RECORD":
                state = _created(topics[data["topicId"]], at, offset, data)
            elif place in now:
                state = _changed(now[place], at, offset, data)
            else:
                raise ValueError(f"metadata offset {offset} changes a partition nobody created")
            now[place] = state
            partitions.append(state)
        else:
            brokers.extend(_broker_states(kind, at, offset, data))
    return MetadataLog(partitions=tuple(partitions), brokers=tuple(brokers))


def _records(dump: str) -> Iterator[tuple[datetime, int, str, dict[str, Any]]]:
    at, offset = datetime.fromtimestamp(0, tz=UTC), -1
    for line in dump.splitlines():
        if batch := _BATCH.match(line):
            at = datetime.fromtimestamp(int(batch["time"]) / 1000, tz=UTC)
            offset = int(batch["offset"]) - 1
        elif line.startswith(_PAYLOAD):
            offset += 1
            record = json.loads(line.removeprefix(_PAYLOAD))
            yield at, offset, record["type"], record["data"]


def _created(topic: str, at: datetime, offset: int, data: dict[str, Any]) -> PartitionState:
    return PartitionState(
        at=at,
        metadata_offset=offset,
        topic=topic,
        partition=data["partitionId"],
        leader=data["leader"],
        leader_epoch=data["leaderEpoch"],
        partition_epoch=data["partitionEpoch"],
        replicas=tuple(data["replicas"]),
        isr=tuple(data["isr"]),
        elr=tuple(data.get("eligibleLeaderReplicas") or ()),
    )


def _changed(
    old: PartitionState, at: datetime, offset: int, data: dict[str, Any]
) -> PartitionState:
    new = replace(old, at=at, metadata_offset=offset, partition_epoch=old.partition_epoch + 1)
    if "leader" in data:
        new = replace(new, leader=data["leader"], leader_epoch=old.leader_epoch + 1)
    # An absent or null list is an unchanged one.
    return replace(
        new,
        replicas=_or(data.get("replicas"), old.replicas),
        isr=_or(data.get("isr"), old.isr),
        elr=_or(data.get("eligibleLeaderReplicas"), old.elr),
    )


def _or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _broker_states(
    kind: str, at: datetime, offset: int, data: dict[str, Any]
) -> Iterator[BrokerState]:
    def state(name: str) -> BrokerState:
        return BrokerState(
            at=at,
            metadata_offset=offset,
            broker=data["brokerId"],
            state=name,
            broker_epoch=data["brokerEpoch"],
        )

    if kind == "REGISTER_BROKER_RECORD":
        yield state("registered")
    elif kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        if data.get("fenced") in _FENCING:
            yield state(_FENCING[data["fenced"]])
        if data.get("inControlledShutdown") == 1:
            yield state("controlled-shutdown")
