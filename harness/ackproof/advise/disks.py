"""Reads the log directories of a stopped node: its identity, its replicas, and how it ended.

Only the last segment of each replica is read; after a clean stop, only its end. Nothing is written.
"""

from __future__ import annotations

import fcntl
import io
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import javaproperties

from ackproof.errors import ScenarioError
from ackproof.observation import zookeeper_data
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets, ReplicaLog
from ackproof_spark.forensics.segments import batches

#: How far below a named folder log directories are searched.
_DEPTH = 4
#: The most times of a replica.
_TIMES = 64
#: Relative offset and position; timestamp and relative offset (`OffsetIndex`, `TimeIndex`).
_OFFSET_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
#: The id that ZooKeeper's nodes have together.
ZOOKEEPER = -1
METADATA = "__cluster_metadata-0"
_REPLICA = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d+)")
#: A partition's directory that Kafka is deleting or moving, by its suffix.
_ASIDE = re.compile(r"\.[0-9a-f]{32}-(delete|future|stray)$")


@dataclass(slots=True, kw_only=True)
class NodeDisks:
    """All log directories of one node.

    clean: it ended by controlled shutdown (`.kafka_cleanshutdown` in each directory). folders: the
    directory of each replica; none in a bundle. topic_ids: of each replica whose directory states
    the id of its topic. damaged: replicas whose logs end at a damaged batch. times: some offsets
    of each replica's last segment with the largest timestamp of their batch, in milliseconds.
    metadata: directories with a copy of the metadata log. problems: what could not be read, in
    words. zookeeper: ZooKeeper's data directories; these of all its nodes are in `ZOOKEEPER`.
    """

    node: int
    cluster: str
    logs: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)
    folders: dict[TopicPartition, Path] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, str] = field(default_factory=dict)
    damaged: set[TopicPartition] = field(default_factory=set)
    times: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    clean: bool = True
    metadata: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    zookeeper: list[Path] = field(default_factory=list)


def read_disks(paths: Sequence[Path]) -> Mapping[int, NodeDisks]:
    """Return the nodes whose log directories are in these folders, by their id.

    Raises ScenarioError if a path has no log directory, or if they are of different clusters.
    """
    nodes: dict[int, NodeDisks] = {}
    for path in paths:
        if not path.exists():
            raise ScenarioError(f"{path} does not exist", hint="Name folders of log.dirs.")
        try:
            folders = list(_log_directories(path, _DEPTH))
            for folder in folders:
                _add(nodes, folder)
        except OSError as error:
            raise ScenarioError(
                f"{error.filename} cannot be read: {error.strerror}",
                hint="Run as a user that may read the brokers' log directories, or on a copy.",
            ) from error
        if not folders:
            raise ScenarioError(
                f"{path} has no log directory: there is no meta.properties in it, nor up to "
                f"{_DEPTH} levels below",
                hint="Name a directory of log.dirs or of ZooKeeper (dataDir), or a folder that has "
                "some.",
            )
    require_one_cluster(nodes.values())
    return nodes


def sent(times: Sequence[tuple[int, int]], offsets: Offsets) -> tuple[datetime, datetime] | None:
    """Return about when the first and the last of these offsets were sent; None if unknown.

    times: some offsets of a log with their timestamp, ascending.
    """
    before = [at for offset, at in times if offset <= offsets.first]
    after = [at for offset, at in times if offset >= offsets.last] or [at for _, at in times[-1:]]
    if not before or before[-1] < 0:
        return None
    try:
        first, last = (datetime.fromtimestamp(at / 1000, tz=UTC) for at in (before[-1], after[0]))
    except (ValueError, OverflowError, OSError):  # producers may set any timestamp
        return None
    return first, max(first, last)


def require_one_cluster(nodes: Iterable[NodeDisks], dump: str = "") -> None:
    """Raise ScenarioError if nodes, or ZooKeeper's printed log, are of different clusters."""
    clusters = sorted({zookeeper_data.cluster_of(dump), *(one.cluster for one in nodes)} - {""})
    if len(clusters) > 1:
        raise ScenarioError(
            f"these log directories are of different clusters: {', '.join(clusters)}",
            hint="Name those of one cluster.",
        )


def _log_directories(folder: Path, depth: int) -> Iterator[Path]:
    if not folder.is_dir():
        return
    if (folder / "meta.properties").is_file() or (folder / zookeeper_data.FOLDER).is_dir():
        yield folder
    elif depth:
        for below in sorted(one for one in folder.iterdir() if one.is_dir()):
            yield from _log_directories(below, depth - 1)


def _add(nodes: dict[int, NodeDisks], folder: Path) -> None:
    if (folder / zookeeper_data.FOLDER).is_dir():
        node = nodes.setdefault(ZOOKEEPER, NodeDisks(node=ZOOKEEPER, cluster=""))
        node.zookeeper.append(folder)
        return
    try:
        meta = javaproperties.loads((folder / "meta.properties").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScenarioError(f"{folder / 'meta.properties'} is damaged: {error}") from error
    name, cluster = meta.get("node.id", meta.get("broker.id")), meta.get("cluster.id")
    if name is None or not name.isdecimal() or not cluster:
        raise ScenarioError(f"{folder / 'meta.properties'} has no node.id and cluster.id")
    node = nodes.setdefault(int(name), NodeDisks(node=int(name), cluster=cluster))
    if cluster != node.cluster:
        raise ScenarioError(f"node {name} has directories of two clusters: {folder}")
    _require_unused(folder / ".lock")
    node.clean &= (folder / ".kafka_cleanshutdown").exists()
    watermarks = _of_partitions(folder / "replication-offset-checkpoint", node)
    begins = _of_partitions(folder / "log-start-offset-checkpoint", node)
    for replica in sorted(one for one in folder.iterdir() if one.is_dir()):
        if replica.name == METADATA:
            node.metadata.append(replica)
        elif (match := _REPLICA.fullmatch(replica.name)) and not _ASIDE.search(replica.name):
            place = match["topic"], int(match["partition"])
            if place in node.logs:
                raise ScenarioError(
                    f"node {name} has the replica {replica.name} twice: {folder}, and another of "
                    "its directories",
                    hint="Kafka would not start so. Name one copy of each directory of log.dirs.",
                )
            _add_replica(node, place, replica, watermarks.get(place, 0), begins.get(place, 0))


def _require_unused(lock: Path) -> None:
    """Raise ScenarioError if a broker of this machine holds its lock (`FileLock` of Kafka)."""
    if not lock.is_file():
        return
    with lock.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise ScenarioError(
                f"{lock.parent} is in use: a broker holds {lock.name}",
                hint="Stop its broker first, or name a snapshot. For a running cluster there is "
                "`ackproof advise restart`.",
            ) from error


def _add_replica(
    node: NodeDisks, place: TopicPartition, folder: Path, watermark: int, begin: int
) -> None:
    segments = sorted(folder.glob("*.log"))
    if not segments:
        node.problems.append(f"{folder}: no segment")
        return
    checkpoint = _checkpoint(folder / "leader-epoch-checkpoint", node, width=2)
    epochs = {int(epoch): int(start) for epoch, start in checkpoint}
    last = segments[-1]
    end = int(last.stem)
    clean = (folder.parent / ".kafka_cleanshutdown").exists()
    start, times = _near_end(last, max(epochs, default=-1)) if clean else (0, [])
    # Kafka writes the checkpoint of epochs with a delay (from 3.8), so the batches complete it.
    with last.open("rb") as file:
        file.seek(start)
        for batch in batches(file, size=last.stat().st_size - start):
            if not batch.crc_ok:
                node.problems.append(f"{last}: the batch at offset {batch.base_offset} is damaged")
                node.damaged.add(place)
                break
            if batch.leader_epoch > max(epochs, default=-1):
                epochs[batch.leader_epoch] = batch.base_offset
            end = batch.last_offset + 1
            times = times or [(batch.base_offset, batch.max_timestamp)]
            times.append((batch.last_offset, batch.max_timestamp))
    begin = min(max(begin, int(segments[0].stem)), end)
    known = sorted(epochs.items()) or ([(0, begin)] if end > begin else [])
    try:
        node.logs[place] = ReplicaLog(
            begin=begin, end=end, epochs=tuple(known), high_watermark=watermark
        )
    except ValueError as error:
        node.problems.append(f"{folder}: {error}")
        return
    node.folders[place] = folder
    if topic := _topic_id(folder / "partition.metadata"):
        node.topic_ids[place] = topic
    node.times[place] = times[:: len(times) // _TIMES + 1]


def _near_end(segment: Path, epoch: int) -> tuple[int, list[tuple[int, int]]]:
    """Return a position near the segment's end, and some offsets before it with their timestamps.

    A clean stop has flushed the log and trimmed its indexes, and Kafka checks no batch when it
    starts again: so only those from the last entry of the index on are read. The position is 0 if
    the batch there is not of the last leader epoch that is known from the checkpoint.
    """
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    base = int(segment.stem)
    with segment.open("rb") as log:
        size = segment.stat().st_size
        first = next(batches(log, size=size), None)
        entries = _entries(index, _OFFSET_ENTRY)[-1:]
        position = max((at for _, at in entries if at < size), default=0)
        position = max(position, 0)  # a damaged index has anything
        log.seek(position)
        last = next(batches(log, size=size - position), None)
    if not (position and first and last and last.crc_ok and last.leader_epoch == epoch):
        return 0, []
    known = [(base + offset, at) for at, offset in _entries(times, _TIME_ENTRY)]
    return position, [(first.base_offset, first.max_timestamp), *known]


def _entries(index: Path, entry: struct.Struct) -> list[tuple[int, ...]]:
    """Return the last entry, and some others at equal distances before it, ascending."""
    with index.open("rb") if index.is_file() else io.BytesIO() as file:
        total = file.seek(0, io.SEEK_END) // entry.size
        step, found = max(total // _TIMES, 1), []
        for number in reversed(range(total - 1, -1, -step)):
            file.seek(number * entry.size)
            found.append(entry.unpack(file.read(entry.size)))
    return found


def log_end(replica: Path) -> int:
    """Return where the log in a replica's directory ends, -1 without a segment."""
    for last in sorted(replica.glob("*.log"))[-1:]:
        with last.open("rb") as file:
            good = takewhile(lambda one: one.crc_ok, batches(file, size=last.stat().st_size))
            return max((batch.last_offset + 1 for batch in good), default=int(last.stem))
    return -1


def _topic_id(path: Path) -> str | None:
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    match = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
    return match and match[1]


def _of_partitions(path: Path, node: NodeDisks) -> dict[TopicPartition, int]:
    lines = _checkpoint(path, node, width=3)
    return {(topic, int(number)): int(offset) for topic, number, offset in lines}


def _checkpoint(path: Path, node: NodeDisks, *, width: int) -> list[list[str]]:
    """Return the fields of each line of a checkpoint file; it begins with a version and a count."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line.split() for line in text.splitlines()[2:]]
    good = [one for one in lines if len(one) == width and all(map(str.isdecimal, one[-2:]))]
    if len(good) < len(lines):
        node.problems.append(f"{path}: {len(lines) - len(good)} lines are damaged")
    return good
