"""Memory of a producer: constant, or growing with the number of records."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ackproof.background import Repeating
from ackproof.bench.ledger import bench_topic, sends_per_second
from ackproof.clients.process import ProducerProcess
from ackproof.clients.spec import ProducerSpec
from ackproof.ledger.producer_ledger import stream_path

#: After this many sends queues and buffers are full, and memory should be constant.
WARM = 1_000_000

_EVERY_S = 0.2
_WITHIN_S = 3600.0

#: The records are not needed, so the broker may remove them soon.
_KEEP = {"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMemory:
    """Peak resident memory in bytes up to `WARM` sends (`warm`) and after them (`later`)."""

    records: int
    size: int
    rate: float
    warm: int
    later: int

    @property
    def growth(self) -> float:
        """`later` divided by `warm`."""
        return self.later / self.warm


class _Watch(Repeating):
    """Records the peak memory of a producer up to `WARM` sends and after them."""

    def __init__(self, process: ProducerProcess) -> None:
        super().__init__(every_s=_EVERY_S, name="client memory")
        self._process = process
        self.warm = self.later = 0

    def turn(self) -> bool:
        """Sample once; return whether the producer has ended."""
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


def bench_memory(bootstrap_servers: str, *, records: int, size: int) -> ClientMemory:
    """Send `records`, more than `WARM`, with a ledger, and sample the producer's memory.

    Raises WorkloadError if it fails, ClusterError if the topic cannot be created.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    with (
        bench_topic(bootstrap_servers, topic, _KEEP),
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
                code = process.wait(_WITHIN_S)
        finally:
            process.kill()
        return ClientMemory(
            records=records,
            size=size,
            rate=sends_per_second(process, code),
            warm=watch.warm,
            later=watch.later,
        )
