"""Parses the controllers' metadata log into partition and broker states.

`__cluster_metadata` is the totally ordered log of all decisions of the controller. Kafka's
`DumpLogSegments` prints it; `parse` applies the records as every broker does:
`PartitionRegistration.merge` (a record with a leader raises the leader epoch; every change raises
the partition epoch), `TopicDelta` (clearing ELRs) and `ClusterDelta`/`BrokerRegistration` for
brokers. A dump may begin with a snapshot, which replaces the deleted part of the log.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from ackproof_faults.interfaces.cluster import TopicPartition

_BATCH = re.compile(r"baseOffset: (?P<offset>\d+) .*?CreateTime: (?P<time>\d+) ")
#: Kafka 3 prints no leading bar with --skip-record-metadata, all print the metadata without it.
_PAYLOAD = re.compile(r"(?:\|.*?)? payload: ")

#: The name of a snapshot is its end offset and the epoch of that offset.
_FILE = re.compile(
    r"Dumping (?:.*/)?(?P<offset>\d{20})(?:-\d{10}\.(?P<snapshot>checkpoint)|\.log)$"
)

#: The type of a topic in a CONFIG_RECORD (`ConfigResource.Type`).
TOPIC_RESOURCE = 2

#: The values of a broker's fencing change (BrokerRegistrationFencingChange).
_FENCING = {1: "fenced", -1: "unfenced"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A printed record: Kafka's name of its `kind`, and its fields.

    A record in a `snapshot` has the offset of the last record that the snapshot covers.
    """

    at: datetime
    offset: int
    kind: str
    data: dict[str, Any]
    snapshot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition from `at` on, until its next state. `leader` is -1 without a leader.

    `elr` are the eligible leader replicas; `last_known_elr` is the last leader, kept while the
    ISR is empty (KIP-966, PartitionChangeBuilder).
    """

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
    last_known_elr: tuple[int, ...] = ()
    topic_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A change of a broker's registration.

    `state` is registered, fenced, unfenced, controlled-shutdown or unregistered.
    """

    at: datetime
    metadata_offset: int
    broker: int
    state: str
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLog:
    """All states of all partitions and brokers, in the controller's order.

    latest: the last state of each partition whose topic was not deleted, as far as that is known.
    settings: the own settings of these topics, by topic and key.
    """

    partitions: tuple[PartitionState, ...]
    brokers: tuple[BrokerState, ...]
    latest: tuple[PartitionState, ...] = ()
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def since(self, moment: datetime) -> MetadataLog:
        """Return the states from `moment` on, and each broker's last state before.

        A run creates its topics after that moment, so its partitions have no earlier state. A
        ZooKeeper controller may still be deleting a topic of the same name then; the states of that
        topic, before the partition epoch falls to 0, are left out. A topic that this run created
        begins with the partition epoch 0, also if it is created again.
        """
        before = {state.broker: state for state in self.brokers if state.at < moment}
        lives: dict[TopicPartition, list[PartitionState]] = {}
        for state in self.partitions:
            if state.at >= moment:
                life = lives.setdefault((state.topic, state.partition), [])
                if life and life[0].partition_epoch > 0 == state.partition_epoch:
                    life.clear()
                life.append(state)
        return MetadataLog(
            partitions=tuple(
                sorted(chain.from_iterable(lives.values()), key=lambda s: s.metadata_offset)
            ),
            brokers=(
                *(before[broker] for broker in sorted(before)),
                *(state for state in self.brokers if state.at >= moment),
            ),
        )


@contextmanager
def damage_as_value_error(what: str) -> Iterator[None]:
    """Turn errors of a parser into ValueError."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, OverflowError, OSError, struct.error) as error:
        raise ValueError(f"{what} is damaged: {error!r}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is damaged: {error.msg}: {error.doc[:60]!r}") from error
    except RecursionError:
        raise ValueError(f"{what} is damaged: it is nested too deeply") from None


@damage_as_value_error("the metadata log")
def parse(dump: str) -> MetadataLog:
    """Return the states in a dump made with `--cluster-metadata-decoder`.

    Raises ValueError if the dump is damaged, or if a record changes a partition that no earlier
    record created.
    """
    topics: dict[str, str] = {}
    now: dict[TopicPartition, PartitionState] = {}
    partitions: list[PartitionState] = []
    brokers: list[BrokerState] = []
    settings: dict[str, dict[str, str]] = {}
    for entry in records(dump):
        kind, data = entry.kind, entry.data
        if kind == "TOPIC_RECORD":
            topics[data["topicId"]] = _text(data["name"])
        elif kind == "REMOVE_TOPIC_RECORD":
            now = {key: state for key, state in now.items() if key[0] != data["topicId"]}
            # The controller deletes a topic's settings with it, and writes no record of that.
            settings.pop(topics.get(data["topicId"], ""), None)
        elif kind == "CONFIG_RECORD" and data["resourceType"] == TOPIC_RESOURCE:
            own = settings.setdefault(data["resourceName"], {})
            own.pop(data["name"], None)
            if data["value"] is not None:
                own[data["name"]] = str(data["value"])
        elif kind == "CLEAR_ELR_RECORD":
            none = replace(entry, data={"eligibleLeaderReplicas": [], "lastKnownElr": []})
            cleared = {
                key: _changed(state, none)
                for key, state in now.items()
                if data["topicName"] in ("", state.topic) and (state.elr or state.last_known_elr)
            }
            now |= cleared
            partitions += cleared.values()
        elif kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            key = (data["topicId"], data["partitionId"])
            if kind == "PARTITION_RECORD":
                state = _created(topics[data["topicId"]], entry)
            elif key in now:
                state = _changed(now[key], entry)
            else:
                raise ValueError(f"metadata offset {entry.offset} changes an unknown partition")
            now[key] = state
            partitions.append(state)
        else:
            brokers.extend(_broker_states(entry))
    return MetadataLog(
        partitions=tuple(partitions),
        brokers=tuple(brokers),
        latest=tuple(now.values()),
        settings=settings,
    )


def records(dump: str) -> Iterator[Entry]:
    """Yield the records of a dump in the controller's order; raise ValueError if it is damaged."""
    with damage_as_value_error("the metadata log"):
        yield from _records(dump)


def _records(dump: str) -> Iterator[Entry]:
    at, offset = datetime.fromtimestamp(0, tz=UTC), -1
    end_of_snapshot = 0
    in_snapshot = False
    for line in dump.splitlines():
        if file := _FILE.match(line):
            in_snapshot = file["snapshot"] is not None
            if in_snapshot:
                end_of_snapshot = int(file["offset"])
        elif batch := _BATCH.match(line):
            at = datetime.fromtimestamp(int(batch["time"]) / 1000, tz=UTC)
            offset = int(batch["offset"]) - 1
        elif payload := _PAYLOAD.match(line):
            offset += 1
            record = json.loads(line[payload.end() :])
            if not isinstance(record["data"], dict):
                raise ValueError(f"the fields of the record at offset {offset} are no object")
            if in_snapshot or offset >= end_of_snapshot:
                yield Entry(
                    at=at,
                    offset=end_of_snapshot - 1 if in_snapshot else offset,
                    kind=record["type"],
                    data=record["data"],
                    snapshot=in_snapshot,
                )


def last_offset(dump: str) -> int:
    """Return the offset of the last record in a dump, -1 for an empty dump."""
    return max((entry.offset for entry in records(dump)), default=-1)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(map(_int, values))


def _created(topic: str, entry: Entry) -> PartitionState:
    data = entry.data
    return PartitionState(
        at=entry.at,
        metadata_offset=entry.offset,
        topic=topic,
        partition=_int(data["partitionId"]),
        leader=_int(data["leader"]),
        leader_epoch=_int(data["leaderEpoch"]),
        partition_epoch=_int(data["partitionEpoch"]),
        replicas=_ints(data["replicas"]),
        isr=_ints(data["isr"]),
        elr=_ints(data.get("eligibleLeaderReplicas") or ()),
        last_known_elr=_ints(data.get("lastKnownElr") or ()),
        topic_id=_text(data["topicId"]),
    )


def _changed(old: PartitionState, entry: Entry) -> PartitionState:
    data = entry.data
    if "leader" in data:
        old = replace(old, leader=_int(data["leader"]), leader_epoch=old.leader_epoch + 1)
    # An absent or null list is unchanged.
    return replace(
        old,
        at=entry.at,
        metadata_offset=entry.offset,
        partition_epoch=old.partition_epoch + 1,
        replicas=_or(data.get("replicas"), old.replicas),
        isr=_or(data.get("isr"), old.isr),
        elr=_or(data.get("eligibleLeaderReplicas"), old.elr),
        last_known_elr=_or(data.get("lastKnownElr"), old.last_known_elr),
    )


def _or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else _ints(new)


def _broker_states(entry: Entry) -> Iterator[BrokerState]:
    kind, data = entry.kind, entry.data

    def state(name: str) -> BrokerState:
        return BrokerState(
            at=entry.at,
            metadata_offset=entry.offset,
            broker=_int(data["brokerId"]),
            state=name,
            broker_epoch=data["brokerEpoch"],
        )

    if kind == "REGISTER_BROKER_RECORD":
        yield state("registered")
        if data.get("fenced") is False:  # in a snapshot
            yield state("unfenced")
    elif kind == "UNREGISTER_BROKER_RECORD":
        yield state("unregistered")
    elif kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        if data.get("fenced") in _FENCING:
            yield state(_FENCING[data["fenced"]])
        if data.get("inControlledShutdown") == 1:
            yield state("controlled-shutdown")
