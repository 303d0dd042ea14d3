"""A broker's disk as Kafka lays it out: partitions, segments, batches and checkpoint files.

Formats: `org.apache.kafka.common.record.DefaultRecordBatch` (and, before 0.11, one message after
the other), `org.apache.kafka.server.common.CheckpointFile`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof_faults.conditions.targets import TOPIC_PARTITION
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape

#: Its log is fsynced before anything in it counts (KRaft), so that no fault here touches it.
METADATA = "__cluster_metadata"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

#: What a broker logs when it takes a directory offline (`ReplicaManager.handleLogDirFailure`,
#: KIP-112), before the directory's name.
DIRECTORY_FAILED = "Stopping serving replicas in dir"

#: Offset and length, as in every format; then leader epoch, magic, CRC, attributes and the last
#: offset's distance, as in the format since 0.11.
_BEGIN = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhi")
_MAGIC_AT = 16
_RECORDS_AT = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch in a segment: the first and last of its offsets, and its bytes in the file."""

    first: int
    last: int
    position: int
    size: int

    @property
    def middle(self) -> int:
        """A position inside of it, past its header where it has records."""
        return self.position + min(self.size - 1, (_RECORDS_AT + self.size) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One `.log` file; `base` is the offset in its name."""

    path: str
    base: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One partition on one broker's disk, its segments in order; the last is the active one."""

    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        """The partition as Kafka names its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def log_directory(self) -> str:
        """The log directory in which it lies."""
        return self.directory.rpartition("/")[0]


def replicas(cluster: Cluster, broker: int) -> list[Replica]:
    """Return what the broker's disk holds, but for the metadata log, ordered by name."""
    directories = cluster.log_directories(broker)
    listed = at_disk(
        cluster,
        broker,
        f"find {' '.join(directories)} -mindepth 2 -maxdepth 2 -name '*.log' -printf '%p %s\\n'",
    )
    found: dict[str, list[Segment]] = {}
    for line in listed.splitlines():
        path, _, size = line.rpartition(" ")
        folder, _, file = path.rpartition("/")
        base = int(file.removesuffix(".log"))
        found.setdefault(folder, []).append(Segment(path=path, base=base, size=int(size)))
    whole = [
        Replica(
            topic=match["topic"],
            partition=int(match["partition"]),
            directory=folder,
            segments=tuple(sorted(segments, key=lambda one: one.base)),
        )
        for folder, segments in found.items()
        if (match := re.fullmatch(TOPIC_PARTITION, folder.rpartition("/")[2]))
        and match["topic"] != METADATA
    ]
    return sorted(whole, key=lambda one: one.name)


def chosen(cluster: Cluster, broker: int, names: Sequence[str]) -> list[Replica]:
    """Return the named replicas of a broker, all of them for no names.

    Raises FaultError if the broker has none of one of them.
    """
    held = replicas(cluster, broker)
    missing = set(names) - {one.name for one in held}
    if missing or not held:
        said = ", ".join(sorted(missing)) or "any partition"
        raise FaultError(f"broker {broker} has no replica of {said}")
    return [one for one in held if not names or one.name in names]


def batches(content: bytes) -> Iterator[Batch]:
    """Yield the whole batches of a segment, in order; a torn end is no batch."""
    position = 0
    while position + _BEGIN.size <= len(content):
        first, length = _BEGIN.unpack_from(content, position)
        size = _BEGIN.size + length
        if length <= 0 or position + size > len(content):
            return
        last = first
        if size >= _HEADER.size and content[position + _MAGIC_AT] == 2:
            last = first + _HEADER.unpack_from(content, position)[-1]
        yield Batch(first=first, last=last, position=position, size=size)
        position += size


def end_offset(segment: Segment, content: bytes) -> int:
    """Return the offset after the segment's last whole batch."""
    last = segment.base - 1
    for batch in batches(content):
        last = batch.last
    return last + 1


def checkpoints(cluster: Cluster, broker: int, log_directory: str, file: str) -> dict[str, int]:
    """Return the offset of each partition (``orders-0``) in one of Kafka's checkpoint files."""
    return parse_checkpoint(cluster.read_file(broker, f"{log_directory}/{file}").decode())


def parse_checkpoint(text: str) -> dict[str, int]:
    """Return the offset of each partition in the text: version, count, one line for each."""
    lines = [line.split() for line in text.splitlines()[2:]]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}


def checkpoint_text(offsets: Mapping[str, int]) -> str:
    """Return a checkpoint file with these offsets."""
    lines = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in offsets.items()]
    return "\n".join(["0", str(len(lines)), *lines, ""])


def at_disk(cluster: Cluster, broker: int, script: str) -> str:
    """Run a script at the broker's disk and return what it printed; FaultError if it fails."""
    result = cluster.run_at_disk(broker, f"set -euo pipefail\n{script}")
    if result.exit_status != 0:
        raise FaultError(f"at the disk of broker {broker}: {result.output.strip()}")
    return result.output


def kill_all(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Send SIGKILL to every one; raise FaultError if one is down already."""
    for node in nodes:
        if cluster.exit_status(node) is not None:
            raise FaultError(f"broker {node} was already down: its disk was not in use")
    for node in nodes:
        cluster.kill(node)


def require_down(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Raise FaultError if one of the brokers runs."""
    for node in nodes:
        if cluster.exit_status(node) is None:
            raise FaultError(f"broker {node} runs: its disk was not damaged while it was down")


def empty(cluster: Cluster, broker: int, directory: str) -> None:
    """Delete everything in a log directory."""
    at_disk(cluster, broker, f"find {directory} -mindepth 1 -delete")


def files(cluster: Cluster, broker: int, directories: Sequence[str]) -> int:
    """Return how many files lie in these log directories."""
    return int(at_disk(cluster, broker, f"find {' '.join(directories)} -type f | wc -l"))


def no_such_directory(log_dir: int, shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the field `log_dir`: one of several log directories."""
    if shape.log_dirs < 2:
        yield (
            "log_dir",
            "the brokers have one log directory only: set cluster.log_dirs",
        )
    elif log_dir > shape.log_dirs:
        yield "log_dir", f"the brokers have log directories 1 to {shape.log_dirs}, not {log_dir}"
