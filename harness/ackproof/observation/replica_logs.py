"""Reads the batch headers of every replica from its broker's disk.

The container engine streams a partition's directory as a tar archive, whether the broker runs or
not. The stream is not copied to disk, and only the header of a batch is kept (about a hundred bytes
in the table). At most `limit` bytes are read from a broker; a replica beyond that is marked as
incomplete, with the reason.

Running brokers' page cache is included. Call this when producers have ended.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ackproof.runs.directory import disk_errors
from ackproof_spark.forensics.segments import Batch, Tail, batches
from ackproof_spark.tables import LOCATION, REPLICA_BATCHES, SCHEMA_VERSION

if TYPE_CHECKING:
    from docker.models.containers import Container

    from ackproof.cluster.node import KafkaNode

#: The default limit of bytes of segments that are read from one broker.
LIMIT = 2 << 30

_ROWS = 1 << 16
_SEGMENT = ".log"


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
    nodes: Mapping[int, KafkaNode],
    replicas: Mapping[tuple[str, int], Sequence[int]],
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
    node: KafkaNode,
    partitions: Sequence[tuple[str, int]],
    path: Path,
    limit: int,
) -> list[ReplicaLog]:
    import pyarrow.parquet as pq

    logs = []
    with pq.ParquetWriter(path, REPLICA_BATCHES) as writer:
        for topic, partition in partitions:
            log = ReplicaLog(broker=broker, topic=topic, partition=partition)
            log = _take_replica(log, node, writer, path.parents[1].name, limit)
            limit -= log.bytes
            logs.append(log)
    return logs


def _take_replica(
    log: ReplicaLog, node: KafkaNode, writer: object, run_id: str, limit: int
) -> ReplicaLog:
    from docker.errors import DockerException, NotFound
    from requests import RequestException

    for directory in node.spec.directories:
        try:
            with _archive(node.container, f"{directory}/{log.topic}-{log.partition}") as archive:
                return read_replica(log, archive, writer, run_id=run_id, limit=limit)
        except NotFound:
            continue
        except (DockerException, RequestException, tarfile.TarError) as error:
            return replace(log, complete=False, reason=f"its directory cannot be read: {error}")
    return replace(log, complete=False, reason="the broker has no directory for it")


def read_replica(
    log: ReplicaLog, archive: tarfile.TarFile, writer: object, *, run_id: str, limit: int
) -> ReplicaLog:
    """Write the batches of one partition directory; return the replica.

    The archive lists segments by name, which is the order of their offsets.
    """
    first: int | None = None
    for member in archive:
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
        for rows in _chunks(batches(cast("BinaryIO", file), size=member.size, tail=tail)):
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


def _chunks(headers: Iterator[Batch]) -> Iterator[list[Batch]]:
    while rows := list(islice(headers, _ROWS)):
        yield rows


def _write(
    writer: object, log: ReplicaLog, segment: str, run_id: str, rows: Sequence[Batch]
) -> None:
    import pyarrow as pa

    common = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "broker": log.broker,
        "topic": log.topic,
        "partition": log.partition,
        "segment": segment,
    }
    columns = dict(zip(Batch._fields, zip(*rows, strict=True), strict=True))
    arrays = [
        pa.array(columns[field.name], type=field.type)
        if field.name in columns
        else pa.repeat(pa.scalar(common[field.name], type=field.type), len(rows))
        for field in REPLICA_BATCHES
    ]
    writer.write_table(pa.Table.from_arrays(arrays, schema=REPLICA_BATCHES))  # type: ignore[attr-defined]


@contextlib.contextmanager
def _archive(container: Container, path: str) -> Iterator[tarfile.TarFile]:
    """Open a directory of a container as a tar stream; close the connection afterwards."""
    chunks, _ = container.get_archive(path)
    try:
        with tarfile.open(
            fileobj=io.BufferedReader(_Stream(chunks), 1 << 20), mode="r|"
        ) as archive:
            yield archive
    finally:
        chunks.close()  # type: ignore[attr-defined]  # a generator; closing it ends the request


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
