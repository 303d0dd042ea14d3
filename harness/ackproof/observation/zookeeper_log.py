"""Parses ZooKeeper's transaction log into partition and broker states.

Before KRaft, the controller and the partition leaders commit leadership and ISR by writing znodes.
ZooKeeper logs each write before it applies it, with its id (zxid), its time in milliseconds and the
new version of the znode. (ZooKeeper's `LogFormatter` prints times in whole seconds only.) The
format is that of `org.apache.zookeeper.server.persistence.FileTxnLog` and `zookeeper.jute`,
unchanged since 3.4.

Znodes map to the tables shared with KRaft:

- `/brokers/topics/T/partitions/N/state` contains leader, leader epoch and ISR; its version is the
  partition epoch (which `AlterPartition` later took from it).
- `/brokers/topics/T` contains the assignment of replicas.
- `/brokers/ids/B` exists during the broker's session: the broker is `registered` and `unfenced`
  when it is created, `fenced` when it is deleted. Its zxid is the broker epoch (KIP-380).
"""

from __future__ import annotations

import io
import json
import re
import struct
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import adler32

from ackproof.containers.commands import Node
from ackproof.containers.images import DATA_DIR
from ackproof.observation.metadata_log import (
    BrokerState,
    MetadataLog,
    PartitionState,
    damage_as_value_error,
)
from ackproof_faults.interfaces.cluster import TopicPartition

#: The folder of transaction logs and snapshots.
_LOG_DIR = f"{DATA_DIR}/version-2"

_MAGIC = b"ZKLG"
_HEADER_SIZE = 16
_END_OF_RECORD = b"B"

# org.apache.zookeeper.ZooDefs.OpCode
_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE2 = 1, 2, 5, 14, 15
_CREATE_CONTAINER, _CREATE_TTL, _DELETE_CONTAINER = 19, 21, 20
_CLOSE_SESSION = -11
_CREATES = (_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL)
_DELETES = (_DELETE, _DELETE_CONTAINER)

_STATE = re.compile(r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state")
TOPIC = re.compile(r"/brokers/topics/(?P<topic>[^/]+)")
_BROKER = re.compile(r"/brokers/ids/(?P<broker>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of a znode, or its deletion (`data` is None).

    An `ephemeral` znode is deleted when its `session` ends.
    """

    at: datetime
    zxid: int
    session: int
    path: str
    data: bytes | None
    version: int = 0
    ephemeral: bool = False


class Record:
    """Reads the fields of a logged record in their order (jute, big-endian)."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(">" + layout, self._content, self._at)
        self._at += struct.calcsize(">" + layout)
        return values

    def number(self) -> int:
        return int(self.take("i")[0])

    def data(self) -> bytes:
        size = self.number()
        if size < 0:  # null
            return b""
        data = self._content[self._at : self._at + size]
        self._at += size
        return data

    def text(self) -> str:
        return self.data().decode()


def take(nodes: Sequence[Node], run_dir: Path) -> MetadataLog:
    """Store the logs as zookeeper/<node>/log.<zxid> in the run directory; return their states."""
    logs = []
    for node in nodes:
        target = run_dir / "zookeeper" / node.name
        target.mkdir(parents=True, exist_ok=True)
        chunks, _ = node.container.get_archive(_LOG_DIR)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name.startswith("log.") else None
                if file is not None:
                    logs.append(file.read())
                    (target / name).write_bytes(logs[-1])
    return states(logs)


@damage_as_value_error("the ZooKeeper transaction log")
def states(logs: Iterable[bytes]) -> MetadataLog:
    """Return the states in the transaction logs of all nodes of one ZooKeeper, in any order.

    The log of a node that was down may have a gap, because it received a snapshot; all logs
    together do not. Raises ValueError if a file is no transaction log, or damaged before its end.
    """
    by_zxid = transactions(logs)
    ordered = [write for zxid in sorted(by_zxid) for write in by_zxid[zxid]]
    replay = Replay()
    found = [state for write in with_expiries(ordered) for state in replay.states(write)]
    return MetadataLog(
        partitions=tuple(state for state in found if isinstance(state, PartitionState)),
        brokers=tuple(state for state in found if isinstance(state, BrokerState)),
    )


def transactions(logs: Iterable[bytes]) -> dict[int, list[Write]]:
    """Return the writes of each transaction, by its zxid."""
    by_zxid: dict[int, list[Write]] = {}
    for log in logs:
        for zxid, group in groupby(writes(log), key=lambda write: write.zxid):
            by_zxid.setdefault(zxid, list(group))
    return by_zxid


@dataclass(slots=True)
class Replay:
    """Applies writes in their order."""

    _topics: dict[str, Any] = field(default_factory=dict)
    _now: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    _epochs: dict[int, int] = field(default_factory=dict)

    def states(self, write: Write) -> Iterator[PartitionState | BrokerState]:
        """Yield the states that begin with this write. Raises KeyError, ValueError for damage."""
        if match := _STATE.fullmatch(write.path):
            key = match["topic"], int(match["partition"])
            if write.data is None:
                self._now.pop(key, None)
                return
            self._now[key] = _partition(write, key, self._topics[key[0]])
            yield self._now[key]
        elif match := TOPIC.fullmatch(write.path):
            if write.data is not None:
                topic = self._topics[match["topic"]] = json.loads(write.data)
                moved = list(_moved(write, match["topic"], topic["partitions"], self._now))
                self._now |= {(state.topic, state.partition): state for state in moved}
                yield from moved
        elif match := _BROKER.fullmatch(write.path):
            yield from _broker(write, int(match["broker"]), self._epochs)


def writes(log: bytes) -> Iterator[Write]:
    """Yield the writes of one file of the transaction log, up to its last complete record.

    The end of a session is a write with an empty path: it deletes the session's ephemeral znodes.
    """
    if not any(log[:_HEADER_SIZE]):
        return  # it was only created
    if log[:4] != _MAGIC:
        raise ValueError(f"not a ZooKeeper transaction log: it begins with {log[:4]!r}")
    at = _HEADER_SIZE
    while at + 12 <= len(log):
        checksum, size = struct.unpack_from(">qi", log, at)
        if size <= 0:
            return  # the rest is preallocated zeroes
        content = log[at + 12 : at + 12 + size]
        end = at + 12 + size
        if log[end : end + 1] != _END_OF_RECORD:
            return  # this record is being written
        if adler32(content) != checksum:
            raise ValueError(f"the ZooKeeper transaction log is damaged at byte {at}")
        yield from _writes(Record(content))
        at = end + 1


def _writes(record: Record) -> Iterator[Write]:
    session, _cxid, zxid, milliseconds, kind = record.take("qiqqi")
    common = Write(
        at=datetime.fromtimestamp(milliseconds / 1000, tz=UTC),
        zxid=zxid,
        session=session,
        path="",
        data=None,
    )
    if kind == _CLOSE_SESSION:
        yield common
    elif kind == _MULTI:
        for _ in range(record.number()):
            part = record.number()
            yield from _write(common, part, Record(record.data()))
    else:
        yield from _write(common, kind, record)


def _write(common: Write, kind: int, record: Record) -> Iterator[Write]:
    if kind in _CREATES:
        path, data = record.text(), record.data()
        for _ in range(record.number()):  # access control list
            record.number(), record.text(), record.text()
        # Containers and znodes with a TTL do not belong to a session.
        ephemeral = kind in (_CREATE, _CREATE2) and bool(record.take("?")[0])
        yield replace(common, path=path, data=data, ephemeral=ephemeral)
    elif kind == _SET_DATA:
        path, data = record.text(), record.data()
        yield replace(common, path=path, data=data, version=record.number())
    elif kind in _DELETES:
        yield replace(common, path=record.text())


def with_expiries(logged: Iterable[Write]) -> Iterator[Write]:
    """Replace the end of each session by deletions of its ephemeral znodes."""
    owners: dict[str, int] = {}
    for write in logged:
        if write.path:
            if write.ephemeral:
                owners[write.path] = write.session
            yield write
            continue
        for path in [path for path, session in owners.items() if session == write.session]:
            del owners[path]
            yield replace(write, path=path)


def _partition(write: Write, key: TopicPartition, topic: Mapping[str, Any]) -> PartitionState:
    assert write.data is not None
    state = json.loads(write.data)
    return PartitionState(
        at=write.at,
        metadata_offset=write.zxid,
        topic=key[0],
        partition=key[1],
        leader=state["leader"],
        leader_epoch=state["leader_epoch"],
        partition_epoch=write.version,
        replicas=tuple(topic["partitions"][str(key[1])]),
        isr=tuple(state["isr"]),
        elr=(),
        topic_id=topic.get("topic_id") or "",
    )


def _moved(
    write: Write,
    topic: str,
    assigned: Mapping[str, list[int]],
    now: Mapping[TopicPartition, PartitionState],
) -> Iterator[PartitionState]:
    for number, replicas in assigned.items():
        old = now.get((topic, int(number)))
        if old is not None and old.replicas != tuple(replicas):
            yield replace(old, at=write.at, metadata_offset=write.zxid, replicas=tuple(replicas))


def _broker(write: Write, broker: int, epochs: dict[int, int]) -> Iterator[BrokerState]:
    if write.data is not None and broker not in epochs:
        epochs[broker] = write.zxid
        names = ["registered", "unfenced"]
    elif write.data is None and broker in epochs:
        names = ["fenced"]
    else:
        return
    for name in names:
        yield BrokerState(
            at=write.at,
            metadata_offset=write.zxid,
            broker=broker,
            state=name,
            broker_epoch=epochs[broker],
        )
    if write.data is None:
        del epochs[broker]
