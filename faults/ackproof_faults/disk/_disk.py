"""A broker's disk as Kafka lays it out: partitions, segments, batches and checkpoint files.

Formats: `org.apache.kafka.common.record.DefaultRecordBatch` (before 0.11, a sequence of messages),
`org.apache.kafka.server.common.CheckpointFile`.
"""

from __future__ import annotations

import re
import struct
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field

from ackproof_faults.conditions.targets import TOPIC_PARTITION
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._processes import Ended, kill_all

#: The metadata log of KRaft. Each node has it; only faults of controllers damage it.
METADATA = "__cluster_metadata"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

#: Interfaces of faults that damage the disk of a stopped broker.
REQUIRES: InterfaceNames = ("metadata", "processes", "volumes")

#: Offset and length, in every format; since 0.11 followed by leader epoch, magic, CRC, attributes
#: and last offset delta.
_BEGIN = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhi")
_MAGIC_AT = 16
_RECORDS_AT = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch of a segment: its first and last offset, its position and size in bytes."""

    first: int
    last: int
    position: int
    size: int

    @property
    def middle(self) -> int:
        """A position inside the batch, past its header if it has records."""
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
        """The partition as Kafka names its directory: ``orders-0``."""
        return f"{self.topic}-{self.partition}"

    @property
    def log_directory(self) -> str:
        return self.directory.rpartition("/")[0]


def replicas(cluster: Cluster, broker: int, *, metadata: bool = False) -> list[Replica]:
    """Return all replicas on the node's disk by name, the metadata log only with `metadata`."""
    directories = cluster.volumes.log_directories(broker)
    listed = run_script(
        cluster,
        broker,
        f"find {' '.join(directories)} -mindepth 2 -maxdepth 2 -name '*.log' -printf '%p %s\\n'",
    )
    segments: dict[str, list[Segment]] = {}
    for line in listed.splitlines():
        path, _, size = line.rpartition(" ")
        folder, _, file = path.rpartition("/")
        base = int(file.removesuffix(".log"))
        segments.setdefault(folder, []).append(Segment(path=path, base=base, size=int(size)))
    known = [
        Replica(
            topic=match["topic"],
            partition=int(match["partition"]),
            directory=folder,
            segments=tuple(sorted(own, key=lambda segment: segment.base)),
        )
        for folder, own in segments.items()
        if (match := re.fullmatch(TOPIC_PARTITION, folder.rpartition("/")[2]))
        and (metadata or match["topic"] != METADATA)
    ]
    return sorted(known, key=lambda replica: replica.name)


def select_replicas(
    cluster: Cluster, broker: int, names: Sequence[str], *, metadata: bool = False
) -> list[Replica]:
    """Return the named replicas of a node, or all of them (`replicas`) if no name is given.

    Raises FaultError if the broker lacks one.
    """
    own = replicas(cluster, broker, metadata=metadata)
    missing = set(names) - {replica.name for replica in own}
    if missing or not own:
        what = ", ".join(sorted(missing)) or "any partition"
        raise FaultError(f"broker {broker} has no replica of {what}")
    return [replica for replica in own if not names or replica.name in names]


def batches(content: bytes) -> Iterator[Batch]:
    """Yield the complete batches of a segment, in order; an incomplete last batch is left out."""
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
    """Return the offset after the segment's last complete batch."""
    last = segment.base - 1
    for batch in batches(content):
        last = batch.last
    return last + 1


def checkpoints(cluster: Cluster, broker: int, log_directory: str, file: str) -> dict[str, int]:
    """Return the offset of each partition (``orders-0``) in one of Kafka's checkpoint files."""
    return parse_checkpoint(cluster.volumes.read_file(broker, f"{log_directory}/{file}").decode())


def parse_checkpoint(text: str) -> dict[str, int]:
    """Return the offset of each partition. Lines 1 and 2 of the text are a version and a count."""
    lines = [line.split() for line in text.splitlines()[2:]]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}


def checkpoint_text(offsets: Mapping[str, int]) -> str:
    lines = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in offsets.items()]
    return "\n".join(["0", str(len(lines)), *lines, ""])


def run_script(cluster: Cluster, broker: int, script: str) -> str:
    """Run a bash script on the broker's disk; return its output, or raise FaultError."""
    result = cluster.volumes.run(broker, f"set -euo pipefail\n{script}")
    if result.exit_status != 0:
        raise FaultError(f"at the disk of broker {broker}: {result.output.strip()}")
    return result.output


class DamagedDisk(Ended):
    """SIGKILL brokers and damage their disks; heal starts them again."""

    requires = REQUIRES

    @abstractmethod
    def damage(self, cluster: Cluster, node: int) -> None:
        """Damage the disk of a stopped broker."""

    @abstractmethod
    def require_damage(self, cluster: Cluster, node: int) -> str:
        """Return the proof that the disk is damaged; raise FaultError if it is not."""

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        kill_all(cluster, nodes)
        for node in nodes:
            self.damage(cluster, node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            if cluster.processes.exit_status(node) is None:
                raise FaultError(f"broker {node} runs: its disk was not damaged while it was down")
        return Evidence.joined(self.require_damage(cluster, node) for node in nodes)


def log_dir_problems(log_dir: int, shape: Shape) -> Iterator[Problem]:
    """Yield the problem if `log_dir` is not one of several log directories."""
    if shape.log_dirs < 2:
        yield "log_dir", "the brokers have one log directory only: set cluster.log_dirs"
    elif log_dir > shape.log_dirs:
        yield "log_dir", f"the brokers have log directories 1 to {shape.log_dirs}, not {log_dir}"


def _parse(value: object) -> object:
    names = [value] if isinstance(value, str) else value
    for name in names if isinstance(names, list | tuple) else ():
        if not (isinstance(name, str) and re.fullmatch(TOPIC_PARTITION, name)):
            raise ValueError(f"{name!r} is not a partition ('orders-0', or a list of them)")
    return names


Partitions = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse, json_schema_input_type=str | list[str]),
    Field(
        description="the partitions whose files are damaged; by default all of the broker's",
        examples=["orders-0", ["orders-0", "orders-1"]],
    ),
]


def partition_problems(names: Sequence[str], shape: Shape) -> Iterator[Problem]:
    """Yield the partitions that the scenario does not have."""
    for name in names:
        topic, _, number = name.rpartition("-")
        if topic not in shape.topics:
            yield "partitions", f"there is no topic {topic!r} ({', '.join(sorted(shape.topics))})"
        elif int(number) >= shape.topics[topic]:
            yield (
                "partitions",
                f"{topic} has partitions 0 to {shape.topics[topic] - 1}, not {number}",
            )
