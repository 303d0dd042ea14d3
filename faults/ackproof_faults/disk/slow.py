"""The engine's disk serves a node slowly (block I/O limits of its control group).

The limit holds for what the node's processes read from the disk and write to it. The page cache
absorbs most of Kafka's I/O: slow are fsyncs (`flush.messages`, segments that are closed, and every
append to the metadata log of a controller), and reads of records that are no longer cached. With
control groups of version 2, the kernel's own write-back is limited, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.process._processes import require_running
from ackproof_model.effects import Effects, Slows

#: A limited write takes this many times as long as one without a limit, and this share of the time
#: that the limit gives: the kernel lets a first part pass at once.
_SLOWER, _SHARE = 2.0, 0.5
_LIMITED_S = 0.9
_WRITES = 3
_LEAST_BYTES = 65536


class SlowDisk(Fault):
    """Limit what running nodes read from the disk and write to it."""

    requires = ("metadata", "processes", "volumes")
    needs = (Need.BLOCK_LIMITS,)
    occupies = "disk speed"
    disables = False
    explained = True
    traceless = True
    fault: Literal["slow_disk"] = "slow_disk"
    proof = "a process of the node needs as long to write and fsync as the limit says"
    rate: int = Field(
        default=262144, ge=_LEAST_BYTES, le=20_000_000, description="bytes a second, each way"
    )
    operations: int | None = Field(
        default=None, ge=1, description="reads a second, and writes a second; default: any number"
    )
    effects: ClassVar[Effects] = (Slows(),)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if shape.disk is not None:
            yield "fault", "slow_disk needs a disk: with cluster.disk the brokers' is in memory"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, float]:
        """Set the limits; return how long each node's write took before, seconds."""
        require_running(cluster, nodes)
        before = {node: cluster.volumes.write_s(node, self.rate) for node in nodes}
        for node in nodes:
            cluster.volumes.limit(node, self.rate, self.operations)
        return before

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, float]) -> Evidence:
        proofs = []
        for node in nodes:
            # The limit slows each write down, another load only some.
            took = min(cluster.volumes.write_s(node, self.rate) for _ in range(_WRITES))
            before = done[node]
            wrote = (
                f"node {node} wrote {self.rate:,} bytes in {took:.2f} s (before: {before:.2f} s)"
            )
            if not _slow(took, before):
                raise FaultError(f"{wrote}: its disk is not slow")
            proofs.append(wrote)
        return Evidence.joined(proofs)

    def heal(
        self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, float] | None
    ) -> None:
        for node in nodes:
            if cluster.processes.exit_status(node) is None:  # else its control group is gone
                cluster.volumes.limit(node, None, None)

    def verify_healed(
        self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, float] | None
    ) -> bool:
        """Whether each node is in sync, and writes as fast as before."""
        before = done or {}
        return super().verify_healed(cluster, nodes, done) and not any(
            cluster.volumes.write_s(node, self.rate) >= _healed_s(before.get(node, 0.0))
            for node in nodes
        )


def _slow(took: float, before: float) -> bool:
    return took >= max(_SHARE, _SLOWER * before)


def _healed_s(before: float) -> float:
    """Return the seconds that a write stays below; a limited one takes 1 s even on an idle disk."""
    return min(max(_SHARE, _SLOWER * before), max(_LIMITED_S, before))
