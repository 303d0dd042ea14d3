"""Whether a producer's memory stays the same, however many records it sends."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ackproof.background import Repeating
from ackproof.bench.ledger import bench_topic
from ackproof.clients.process import ProducerProcess
from ackproof.clients.spec import ProducerSpec
from ackproof.errors import WorkloadError
from ackproof.ledger.producer_ledger import stream_path

#: From so many sends on memory is to be flat: queues and buffers are full by then.
WARM = 1_000_000

_EVERY_S = 0.2

#: What was measured is of no use; so the broker may remove it soon.
_KEEP = {"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMemory:
    """A producer's resident memory in bytes: the most of it until `WARM` sends, and after them."""

    records: int
    size: int
    rate: float
    warm: int
    later: int

    @property
    def growth(self) -> float:
        """The later peak as a multiple of the early one."""
        return self.later / self.warm


class _Watch(Repeating):
    """Notes the most memory that a producer had, before and after it was warm."""

    def __init__(self, process: ProducerProcess) -> None:
        super().__init__(every_s=_EVERY_S, name="client memory")
        self._process = process
        self.warm = self.later = 0

    def turn(self) -> bool:
        """Look once; it is over when the producer is."""
        import psutil

        try:
            resident = psutil.Process(self._process.pid).memory_info().rss
        except psutil.NoSuchProcess:
            return True
        if self._process.progress().acked <= WARM:
            self.warm = max(self.warm, resident)
        else:
            self.later = max(self.later, resident)
        return False


def bench_memory(
    bootstrap_servers: str, *, records: int, size: int, within_s: float = 3600.0
) -> ClientMemory:
    """Send `records`, more than `WARM`, with a ledger, and watch the producer's memory.

    Raises WorkloadError if it fails, and ClusterError if the topic cannot be made.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    with (
        bench_topic(bootstrap_servers, topic, 3, 1, _KEEP),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        run_dir = Path(scratch)
        (run_dir / "ledger").mkdir()
        process = ProducerProcess(
            ProducerSpec(
                run_id=topic,
                number=0,
                topic=topic,
                partitions=3,
                bootstrap_servers=bootstrap_servers,
                progress=run_dir / "progress",
                ledger=stream_path(run_dir, 0),
                settings={"acks": "all"},
                records=records,
                size=size,
            )
        )
        process.start()
        try:
            with _Watch(process) as watch:
                code = process.wait(within_s)
        finally:
            process.kill()
        progress = process.progress()
        if code or progress.acked != records:
            raise WorkloadError(
                f"the benchmark's producer ended with {code} and {progress}: {process.error}",
                hint="the cluster must be healthy to be measured",
            )
        started_at, ended_at = process.span_us
        return ClientMemory(
            records=records,
            size=size,
            rate=records / (ended_at - started_at) * 1e6,
            warm=watch.warm,
            later=watch.later,
        )
