"""The power fails: the process is gone, and so is what was in the page cache only.

Kafka calls fsync when a segment is full and otherwise leaves it to the kernel, so that by default
a broker can lose everything above its recovery point (`recovery-point-offset-checkpoint`: up to
there it has fsynced). After SIGKILL the fault takes that from each log: the worst case the files
tell of. The checkpoint is written once a minute (`log.flush.offset.checkpoint.interval.ms`), so
segments that were filled and fsynced since are taken too: a real failure may take less, not more.
A write may also have reached the disk in part: `torn` leaves half of the first batch that is lost,
which the broker finds by its checksum when it recovers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from ackproof_faults.disk import _disk
from ackproof_faults.disk._disk import Replica
from ackproof_faults.disk._partitions import Partitions, unknown
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Shape
from ackproof_faults.process._ended import Ended
from ackproof_faults.process.kill import SIGKILLED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What one log loses: its end before and after, the file that is cut, and those that go."""

    replica: Replica
    before: int
    after: int
    path: str
    size: int
    dropped: tuple[str, ...]


class PowerLoss(Ended):
    """SIGKILL brokers and take from their logs what was not fsynced; heal starts them again."""

    name: ClassVar[str] = "power_loss"
    occupies: ClassVar[str] = "process"
    fault: Literal["power_loss"] = "power_loss"
    proof: ClassVar[str] = (
        "the process ended by SIGKILL, and the logs on its disk end where they were cut, "
        "before where they ended"
    )
    partitions: Partitions
    to_offset: int | None = Field(
        default=None,
        ge=0,
        description="keep what lies before this offset, instead of before the recovery point",
    )
    last: int | None = Field(
        default=None, ge=1, description="lose so many of the last offsets of each log instead"
    )
    torn: bool = Field(
        default=False, description="leave half of the first batch that is lost in the file"
    )

    _cuts: dict[int, list[_Cut]] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _one_way_to_say_where(self) -> Self:
        if self.to_offset is not None and self.last is not None:
            raise ValueError("to_offset and last exclude each other: leave one out")
        return self

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield partitions that are not there."""
        yield from unknown(self.partitions, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Kill every broker, then cut their logs."""
        _disk.kill_all(cluster, nodes)
        self._cuts.clear()
        for node in nodes:
            cuts = [
                cut
                for replica in _disk.chosen(cluster, node, self.partitions)
                if (cut := self._cut(cluster, node, replica)) is not None
            ]
            self._cuts[node] = cuts
            if cuts:
                _disk.at_disk(cluster, node, "\n".join(map(_script, cuts)))

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require SIGKILL, and logs that end where they were cut; at least one has lost something.

        The end is that of the last whole batch in the file, read again from the disk.
        """
        proofs = []
        for node in nodes:
            status = cluster.exit_status(node)
            if status != SIGKILLED:
                raise FaultError(f"broker {node} has exit status {status}, not {SIGKILLED}")
            for cut in self._cuts.get(node, ()):
                name = cut.replica.name
                (now,) = _disk.chosen(cluster, node, [name])
                end = _disk.end_offset(
                    now.segments[-1], cluster.read_file(node, now.segments[-1].path)
                )
                if (end, now.segments[-1].size) != (cut.after, cut.size):
                    raise FaultError(
                        f"{name} of broker {node} ends at {end}, not at {cut.after} as cut"
                    )
                torn = ", torn" if self.torn else ""
                proofs.append(f"broker {node} {name}: ends at {end}, not {cut.before}{torn}")
        if not proofs:
            raise FaultError("nothing was lost: all that the logs hold had been fsynced")
        return "; ".join(proofs)

    def _cut(self, cluster: Cluster, node: int, replica: Replica) -> _Cut | None:
        """Return what this log loses; None for nothing."""
        content = {one.path: b"" for one in replica.segments}
        active = replica.segments[-1]
        content[active.path] = cluster.read_file(node, active.path)
        before = _disk.end_offset(active, content[active.path])
        keep = self._keep(cluster, node, replica, before)
        if keep >= before:
            return None
        # The last segment that begins before the cut; the first one stays, empty if need be.
        index = max((i for i, one in enumerate(replica.segments) if one.base <= keep), default=0)
        cut = replica.segments[index]
        held = content[cut.path] or cluster.read_file(node, cut.path)
        after, size = cut.base, 0
        for batch in _disk.batches(held):
            if batch.last >= keep:
                size = batch.position + (batch.size // 2 if self.torn else 0)
                break
            after, size = batch.last + 1, batch.position + batch.size
        dropped = tuple(one.path for one in replica.segments[index + 1 :])
        return _Cut(
            replica=replica, before=before, after=after, path=cut.path, size=size, dropped=dropped
        )

    def _keep(self, cluster: Cluster, node: int, replica: Replica, before: int) -> int:
        """Return the offset before which everything is kept."""
        if self.last is not None:
            return max(0, before - self.last)
        if self.to_offset is not None:
            return self.to_offset
        flushed = _disk.checkpoints(cluster, node, replica.log_directory, _disk.RECOVERY_POINTS)
        return flushed.get(replica.name, 0)


def _script(cut: _Cut) -> str:
    lines = [f"truncate -s {cut.size} {shlex.quote(cut.path)}"]
    # A later segment's indexes go with it; the cut one's are built anew when it is recovered.
    lines += [f"rm {shlex.quote(path.removesuffix('.log'))}.*" for path in cut.dropped]
    return "\n".join(lines)
