"""Reads the batch headers of every replica from its broker's disk.

`tar` in the broker's container streams the segments of all partitions. From a container that does
not run, or has no `tar`, the engine streams a partition's directory, with its index files (20 MB of
zeros). Streams are not copied to disk. Only the header of each batch is stored (about a hundred
bytes in the table). At most `limit` bytes are read from a broker; a replica beyond that is marked
as incomplete, with the reason.

The page cache of running brokers is included. Call this when producers have ended.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import pyarrow as pa
import pyarrow.parquet as pq
from docker.errors import DockerException, NotFound
from docker.models.containers import Container
from requests import RequestException

from ackproof.containers.commands import Command, Node
from ackproof.errors import EngineError
from ackproof.ledger.arrow_stream import assemble
from ackproof.runs.directory import disk_errors
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.forensics.segments import Batch, Tail, batches
from ackproof_spark.tables import LOCATION, REPLICA_BATCHES, SCHEMA_VERSION

#: The default limit of bytes of segments that are read from a broker.
LIMIT = 2 << 30

_ROWS = 1 << 16
_SEGMENT = ".log"
_BUFFER = 1 << 20

#: Prints the segments of some partitions of a log directory, partition by partition, as a tar.
_SEGMENTS = """cd "$0" && find "$@" -name '*.log' 2>/dev/null | LC_ALL=C sort | tar -cf - -T -"""
#: tar's exit codes; 1: a file changed meanwhile.
_TAR_SUCCEEDED = (0, 1)


class Broker(Node, Protocol):
    @property
    def directories(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One row of `tables.REPLICA_LOGS`."""

    broker: int
    topic: str
    partition: int
    begin_offset: int = 0
    end_offset: int = 0
    bytes: int = 0
    torn_bytes: int = 0
    complete: bool = True
    reason: str | None = None


def take_replica_logs(
    nodes: Mapping[int, Broker],
    replicas: Mapping[TopicPartition, Sequence[int]],
    run_dir: Path,
    *,
    limit: int = LIMIT,
) -> list[ReplicaLog]:
    """Write the table `replica_batches`; return how far each replica was read.

    `nodes` are the brokers by id; `replicas` maps each partition to its brokers. Raises DiskError.
    A failure of the engine makes a replica incomplete.
    """
    folder = run_dir / LOCATION["replica_batches"]
    with disk_errors(run_dir):
        folder.mkdir(exist_ok=True)
        with ThreadPoolExecutor(max_workers=2) as pool:
            jobs = [
                pool.submit(
                    _take_broker,
                    broker,
                    node,
                    sorted(key for key, holders in replicas.items() if broker in holders),
                    folder / f"broker-{broker}.parquet",
                    limit,
                )
                for broker, node in nodes.items()
            ]
            return [log for job in jobs for log in job.result()]


def _take_broker(
    broker: int,
    node: Broker,
    partitions: Sequence[TopicPartition],
    path: Path,
    limit: int,
) -> list[ReplicaLog]:
    unread = {
        f"{topic}-{partition}": ReplicaLog(broker=broker, topic=topic, partition=partition)
        for topic, partition in partitions
    }
    names, logs = list(unread), {}
    run_id = path.parents[1].name
    with pq.ParquetWriter(path, REPLICA_BATCHES) as writer:
        for directory in node.directories:
            if not unread:  # `find` without a name would print every partition
                break
            for log in _take_running(unread, directory, node, writer, run_id=run_id, limit=limit):
                name = f"{log.topic}-{log.partition}"
                logs[name] = log
                del unread[name]
                limit -= log.bytes
        for name, log in unread.items():
            logs[name] = _take_replica(log, node, writer, run_id, limit)
            limit -= logs[name].bytes
    return [logs[name] for name in names]


def _take_running(
    unread: Mapping[str, ReplicaLog],
    directory: str,
    node: Broker,
    writer: object,
    *,
    run_id: str,
    limit: int,
) -> list[ReplicaLog]:
    """Read those of the replicas that a running broker has in this directory, up to the limit.

    If reading fails midway, all replicas that were read are incomplete.
    """
    logs: list[ReplicaLog] = []
    try:
        tar = Command(node.container, ["sh", "-c", _SEGMENTS, directory, *unread])
        with contextlib.closing(tar.stdout()) as stream, _opened(stream) as archive:
            for name, members in groupby(archive, lambda member: member.name.partition("/")[0]):
                logs.append(unread[name])
                logs[-1] = read_replica(
                    logs[-1], archive, members, writer, run_id=run_id, limit=limit
                )
                limit -= logs[-1].bytes
                if not logs[-1].complete:
                    return logs  # the rest may be long
            for _ in stream:
                pass
        if (code := tar.exit_code()) not in _TAR_SUCCEEDED:
            raise tarfile.ReadError(f"tar ended with {code}")
    except (DockerException, RequestException, EngineError, tarfile.TarError) as error:
        reason = f"its segments could not be read to their end: {error}"
        return [replace(log, complete=False, reason=reason) for log in logs]
    return logs


def _take_replica(
    log: ReplicaLog, node: Broker, writer: object, run_id: str, limit: int
) -> ReplicaLog:
    for directory in node.directories:
        try:
            with _archive(node.container, f"{directory}/{log.topic}-{log.partition}") as archive:
                return read_replica(log, archive, archive, writer, run_id=run_id, limit=limit)
        except NotFound:
            continue
        except (DockerException, RequestException, tarfile.TarError) as error:
            return replace(log, complete=False, reason=f"its directory cannot be read: {error}")
    return replace(log, complete=False, reason="the broker has no directory for it")


def read_replica(
    log: ReplicaLog,
    archive: tarfile.TarFile,
    members: Iterable[tarfile.TarInfo],
    writer: object,
    *,
    run_id: str,
    limit: int,
) -> ReplicaLog:
    """Write the batches of one partition; return the replica.

    `members` are its files, sorted by name, which is the order of the segments' offsets.
    """
    first: int | None = None
    for member in members:
        if not member.isfile() or not member.name.endswith(_SEGMENT):
            continue
        if log.bytes + member.size > limit:
            reason = f"its segments exceed the limit of {limit:,} bytes"
            return replace(log, complete=False, reason=reason)
        file = archive.extractfile(member)
        assert file is not None  # it is a file
        segment = Path(member.name).name
        start = int(segment.removesuffix(_SEGMENT))
        tail, end = Tail(), start
        headers = batches(cast("BinaryIO", file), size=member.size, tail=tail)
        while rows := list(islice(headers, _ROWS)):
            _write(writer, log, segment, run_id, rows)
            end = max(end, max(row.last_offset for row in rows) + 1)
        first = start if first is None else min(first, start)
        log = replace(
            log,
            begin_offset=first,
            end_offset=max(log.end_offset, end),
            bytes=log.bytes + member.size,
            torn_bytes=log.torn_bytes + tail.torn,
            reason=f"{segment}: {tail.reason}" if tail.torn else log.reason,
        )
    if first is None:
        return replace(log, complete=False, reason="its directory holds no segment")
    return log


def _write(
    writer: object, log: ReplicaLog, segment: str, run_id: str, rows: Sequence[Batch]
) -> None:
    common = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "broker": log.broker,
        "topic": log.topic,
        "partition": log.partition,
        "segment": segment,
    }
    values = zip(*rows, strict=True)
    columns = dict(zip(Batch._fields, map(pa.array, values), strict=True))
    writer.write_table(assemble(REPLICA_BATCHES, len(rows), common, columns))  # type: ignore[attr-defined]


@contextlib.contextmanager
def _archive(container: Container, path: str) -> Iterator[tarfile.TarFile]:
    """Open a directory of a container as a tar stream; close the connection afterwards."""
    chunks, _ = container.get_archive(path)
    try:
        with _opened(chunks) as archive:
            yield archive
    finally:
        chunks.close()  # type: ignore[attr-defined]  # a generator; closing it ends the request


def _opened(chunks: Iterator[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BufferedReader(_Stream(chunks), _BUFFER), mode="r|")


class _Stream(io.RawIOBase):
    """Chunks of bytes as a file without seek."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast("bytearray", buffer))
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
