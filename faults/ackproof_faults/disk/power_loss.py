"""The power fails: the process is gone, and so is what was only in the page cache.

Kafka calls fsync when a segment is full and otherwise leaves it to the kernel. By default a broker
can lose everything above its recovery point, up to which it has fsynced
(`recovery-point-offset-checkpoint`). After SIGKILL the fault removes that from each log: the worst
case that the files allow. The checkpoint is written once a minute
(`log.flush.offset.checkpoint.interval.ms`), so segments that were filled and fsynced since are
removed too: a real failure may take less, not more. A topic that is fsynced at every record
(`flush.messages` is 1) loses nothing. A write may also have reached the disk in part: `torn` leaves
half of the first lost batch, which the broker finds by its CRC when it recovers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ackproof_faults.disk import _disk
from ackproof_faults.disk._log_cut import Outage, fsynced_topics, outage_evidence, plan_cut
from ackproof_faults.disk._partitions import Partitions, partition_problems
from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.process._ended import Ended
from ackproof_faults.process._nodes import require_sigkilled
from ackproof_model.effects import Effects, Ends


class PowerLoss(Ended):
    """SIGKILL brokers and remove what was not fsynced from their logs; heal starts them again."""

    name: ClassVar[str] = "power_loss"
    requires: ClassVar[InterfaceNames] = (*_disk.REQUIRES, "operations")
    explained: ClassVar[bool] = True
    traceless: ClassVar[bool] = True
    takes_bytes: ClassVar[bool] = True
    past_tense: ClassVar[str] = "lost power"
    fault: Literal["power_loss"] = "power_loss"
    proof: ClassVar[str] = "the process ended by SIGKILL, and the logs end where they were cut"
    partitions: Partitions
    to_offset: int | None = Field(
        default=None,
        ge=0,
        description="keep what is before this offset, instead of before the recovery point",
    )
    last: int | None = Field(
        default=None, ge=1, description="lose this many offsets at the end of each log instead"
    )
    torn: bool = Field(default=False, description="leave half of the first lost batch in the file")

    @property
    def effects(self) -> Effects:
        named = self.to_offset is not None or self.last is not None
        return (Ends(log="prefix" if named else "fsynced", partitions=self.partitions),)

    @model_validator(mode="after")
    def _one_cut_only(self) -> Self:
        if self.to_offset is not None and self.last is not None:
            raise ValueError("to_offset and last exclude each other: leave one out")
        return self

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from partition_problems(self.partitions, shape)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Outage:
        options = {"to_offset": self.to_offset, "last": self.last}
        named = any(cut is not None for cut in options.values())
        fsynced = set() if named else fsynced_topics(cluster, nodes, self.partitions)
        _disk.kill_all(cluster, nodes)
        cuts, whole = [], []
        for node in nodes:
            for replica in _disk.select_replicas(cluster, node, self.partitions):
                if replica.topic in fsynced:
                    whole.append(f"broker {node} {replica.name}")
                elif cut := plan_cut(cluster, node, replica, torn=self.torn, **options):
                    cuts.append(cut)
        for cut in cuts:
            cut.apply(cluster)
        return Outage(cuts=tuple(cuts), whole=tuple(whole))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: Outage) -> Evidence:
        require_sigkilled(cluster, nodes)
        if not done.cuts and not done.whole:
            raise FaultError("nothing was lost: everything in the logs had been fsynced")
        for cut in done.cuts:
            cut.require(cluster)
        return outage_evidence(done, torn=self.torn)
