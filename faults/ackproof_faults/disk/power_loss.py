"""The power fails: the process ends, and data that was only in the page cache is lost.

Kafka calls fsync when a segment is full and otherwise leaves it to the kernel. A broker has fsynced
a log up to its recovery point (`recovery-point-offset-checkpoint`) and can lose everything above.
After SIGKILL the fault removes that from each log: the worst case. The checkpoint is written once a
minute (`log.flush.offset.checkpoint.interval.ms`), so the fault also removes segments that were
fsynced since then; a real failure never removes more. A topic with `flush.messages` 1, which is
fsynced at every record, loses nothing. A write may have reached the disk in part: `torn` leaves
half of the first lost batch, which the broker detects by its CRC when it recovers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Partitions, Replica, partition_problems
from ackproof_faults.evidence import Evidence, FaultError, Json
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import Ended, kill_all, require_sigkilled
from ackproof_model.effects import Effects, Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """The loss of one log.

    `before` and `after` are its end offsets; `path` is the segment that is truncated to `size`
    bytes, `dropped` are the segments behind it.
    """

    broker: int
    partition: str
    before: int
    after: int
    path: str
    size: int
    dropped: tuple[str, ...]

    @property
    def script(self) -> str:
        lines = [f"truncate -s {self.size} {shlex.quote(self.path)}"]
        # The broker rebuilds the indexes of the truncated segment.
        lines += [f"rm {shlex.quote(path.removesuffix('.log'))}.*" for path in self.dropped]
        return "\n".join(lines)

    def __str__(self) -> str:
        role = "controller" if self.partition.startswith(_disk.METADATA) else "broker"
        return f"{role} {self.broker} {self.partition}: ends at {self.after}, not {self.before}"

    def require(self, cluster: Cluster, replica: Replica) -> None:
        """Raise FaultError unless the last complete batch on disk ends at the cut."""
        active = replica.segments[-1]
        content = cluster.volumes.read_file(self.broker, active.path) if active.size else b""
        end = _disk.end_offset(active, content)
        if (end, active.size) != (self.after, self.size):
            raise FaultError(
                f"{self.partition} of broker {self.broker} ends at {end}, not at {self.after} "
                "as cut"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The cuts, and the replicas (`broker 1 orders-0`) that lose nothing."""

    cuts: tuple[LogCut, ...]
    whole: tuple[str, ...]


def plan_cut(
    cluster: Cluster,
    broker: int,
    replica: Replica,
    *,
    to_offset: int | None,
    last: int | None,
    torn: bool,
    flushed: Mapping[str, int],
) -> LogCut | None:
    """Return the cut before `to_offset`, or at the recovery point; of at most the `last` offsets.

    `torn` leaves half of the first lost batch. `flushed`: the recovery points. None if the cut
    removes nothing.
    """
    active = replica.segments[-1]
    content = cluster.volumes.read_file(broker, active.path)
    before = _disk.end_offset(active, content)
    if to_offset is not None:
        keep = to_offset
    else:
        keep = flushed.get(replica.name, 0)
        if last is not None:
            keep = max(keep, before - last)
    if keep >= before:
        return None
    # The last segment that begins before the cut; the first segment stays, even if it is empty.
    index = max((i for i, one in enumerate(replica.segments) if one.base <= keep), default=0)
    segment = replica.segments[index]
    if segment is not active:
        content = cluster.volumes.read_file(broker, segment.path)
    after, size = segment.base, 0
    for batch in _disk.batches(content):
        if batch.last >= keep:
            size = batch.position + (batch.size // 2 if torn else 0)
            break
        after, size = batch.last + 1, batch.position + batch.size
    return LogCut(
        broker=broker,
        partition=replica.name,
        before=before,
        after=after,
        path=segment.path,
        size=size,
        dropped=tuple(one.path for one in replica.segments[index + 1 :]),
    )


class _LosesPower(Ended):
    """SIGKILL nodes and remove the end of their logs; heal starts them again."""

    traceless = True
    takes_bytes = True
    sized_by = ("last", "to_offset")
    #: Whether data that was fsynced remains.
    fsyncs: ClassVar[bool]
    proof = "the process ended by SIGKILL, and the logs end where they were cut"
    partitions: Partitions = ()
    to_offset: int | None = Field(
        default=None,
        ge=0,
        description="keep what is before this offset, instead of before the recovery point",
    )
    last: int | None = Field(
        default=None,
        ge=1,
        description="lose no more than this many offsets at the end of each log, and the rest of "
        "their first batch",
    )
    torn: bool = Field(default=False, description="leave half of the first lost batch in the file")

    @property
    def effects(self) -> Effects:
        fsynced = self.fsyncs and self.to_offset is None
        return (Ends(log="fsynced" if fsynced else "prefix", partitions=self.partitions),)

    @model_validator(mode="after")
    def _one_cut_only(self) -> Self:
        if self.to_offset is not None and self.last is not None:
            raise ValueError("to_offset and last exclude each other: leave one out")
        return self

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from partition_problems(self.partitions, shape)
        if self.partitions and self.target.of_controllers and not shape.combined:
            yield "partitions", f"{self.target}: controllers have no partitions, so leave them out"
        if self.fsyncs and self.target.of_controllers and not shape.combined:
            for key in ("to_offset", "torn"):
                if getattr(self, key):
                    yield key, f"{self.target}: controllers fsync every record; use lying_disk"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Outage:
        options = {"to_offset": self.to_offset, "last": self.last}
        kill_all(cluster, nodes)
        brokers = cluster.metadata.broker_ids()
        cuts: list[LogCut] = []
        whole: list[str] = []
        for node in nodes:
            names, controller = self.partitions, node not in brokers
            # Of combined nodes, a fault of the controllers also takes the metadata log.
            metadata = controller or self.target.of_controllers
            replicas = _disk.select_replicas(cluster, node, names, metadata=metadata)
            kept = [one for one in replicas if self._keeps(cluster, one)]
            role = "controller" if controller else "broker"
            whole += [f"{role} {node} {one.name}" for one in kept]
            exposed = [one for one in replicas if one not in kept]
            flushed = self._recovery_points(cluster, node, exposed)
            planned = (
                plan_cut(cluster, node, one, torn=self.torn, flushed=flushed, **options)
                for one in exposed
            )
            cuts += [cut for cut in planned if cut]
        for node in nodes:
            if scripts := [cut.script for cut in cuts if cut.broker == node]:
                _disk.run_script(cluster, node, "\n".join(scripts))
        return Outage(cuts=tuple(cuts), whole=tuple(whole))

    def _recovery_points(
        self, cluster: Cluster, node: int, replicas: Sequence[Replica]
    ) -> dict[str, int]:
        """Return the offsets up to which the logs were fsynced, as far as the fault keeps them."""
        points: dict[str, int] = {}
        if self.fsyncs and self.to_offset is None:
            for folder in {replica.log_directory: None for replica in replicas}:
                points |= _disk.checkpoints(cluster, node, folder, _disk.RECOVERY_POINTS)
        return points

    def _keeps(self, cluster: Cluster, replica: Replica) -> bool:
        """Whether every record of the replica was fsynced, by the last known settings."""
        if not self.fsyncs:
            return False
        if replica.topic == _disk.METADATA:
            return True
        setting = cluster.operations.known_setting(replica.topic, "flush.messages")
        return self.to_offset is None and setting == "1"

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Outage) -> Evidence:
        require_sigkilled(cluster, nodes)
        if not done.cuts and not done.whole:
            raise FaultError("nothing was lost: the logs held nothing that the fault removes")
        for node in nodes:
            cuts = {cut.partition: cut for cut in done.cuts if cut.broker == node}
            for replica in _disk.select_replicas(cluster, node, list(cuts), metadata=True):
                if replica.name in cuts:
                    cuts[replica.name].require(cluster, replica)
        end = ", torn" if self.torn else ""
        texts = [f"{cut}{end}" for cut in done.cuts]
        if done.whole:
            texts.append(f"{', '.join(done.whole)}: whole, as every record was fsynced")
        # `partition_trace` of the harness reads these facts.
        facts: list[Json] = [
            {
                "broker": cut.broker,
                "partition": cut.partition,
                "end": cut.after,
                "end_before": cut.before,
            }
            for cut in done.cuts
        ]
        return Evidence(text="; ".join(texts), facts={"cuts": facts})


class PowerLoss(_LosesPower):
    """SIGKILL nodes and remove what was not fsynced from their logs; heal starts them again."""

    requires = (*_disk.REQUIRES, "operations")
    explained = True
    past_tense = "lost power"
    fsyncs: ClassVar[bool] = True
    fault: Literal["power_loss"] = "power_loss"


class LyingDisk(_LosesPower):
    """SIGKILL nodes and remove the end of their logs, fsynced or not; heal starts them again."""

    requires = _disk.REQUIRES
    past_tense = "lost power and fsynced data"
    fsyncs: ClassVar[bool] = False
    fault: Literal["lying_disk"] = "lying_disk"

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.to_offset is None and self.last is None:
            raise ValueError("set last (how many offsets are lost) or to_offset")
        return self
