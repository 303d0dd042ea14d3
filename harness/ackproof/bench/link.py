"""What the link proxy costs: the same producer through it and past it, in turns.

Throughput: as many records as it can send, by a producer process of its own. Latency: one record at
a time, from handing it over until its ack. No rule is in force.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ackproof.bench.ledger import send_all
from ackproof.clients.spec import ProducerSpec
from ackproof.cluster.boot import booted
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import WorkloadError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import TopicSpec

_TOPIC = "link"
_ACK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBench:
    """Records a second of each turn, and the median latency of each turn in milliseconds."""

    records: int
    size: int
    direct: tuple[float, ...]
    proxied: tuple[float, ...]
    direct_ms: tuple[float, ...]
    proxied_ms: tuple[float, ...]

    @property
    def throughput(self) -> float:
        """The rate through the proxy as a share of that past it: the median over turns."""
        return statistics.median(a / b for a, b in zip(self.proxied, self.direct, strict=True))

    @property
    def added_ms(self) -> float:
        """How much later an ack comes through the proxy: the median over turns."""
        pairs = zip(self.proxied_ms, self.direct_ms, strict=True)
        return statistics.median(a - b for a, b in pairs)


def bench_link(*, records: int, size: int, pings: int, repetitions: int) -> LinkBench:
    """Measure against one broker of its own, `records` of `size` bytes a turn, `pings` one by one.

    Raises WorkloadError if a record is not acked, and what `booted` raises.
    """
    client = connect()
    rates: dict[str, list[float]] = {"EXTERNAL": [], "LINK": []}
    latencies: dict[str, list[float]] = {"EXTERNAL": [], "LINK": []}
    with (
        booted(
            ClusterSpec(brokers=1, heap="512m", listeners=["LINK"], proxied=["LINK"]),
            client=client,
            image=images.ensure(client=client).reference,
            run_id=f"bench-link-{uuid4().hex[:8]}",
            sidecar=lambda: images.ensure_sidecar(client=client),
        ) as cluster,
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        cluster.create_topics({_TOPIC: TopicSpec(partitions=3, replication_factor=1)})
        for turn in range(repetitions):
            for listener, measured in rates.items():
                spec = ProducerSpec(
                    run_id=_TOPIC,
                    number=0,
                    topic=_TOPIC,
                    partitions=3,
                    bootstrap_servers=cluster.bootstrap(listener),
                    progress=Path(scratch) / f"{turn}-{listener}",
                    ledger=None,
                    settings={"acks": "all"},
                    records=records,
                    size=size,
                )
                measured.append(send_all(spec))
                latencies[listener].append(_latency_ms(cluster.bootstrap(listener), pings))
    return LinkBench(
        records=records,
        size=size,
        direct=tuple(rates["EXTERNAL"]),
        proxied=tuple(rates["LINK"]),
        direct_ms=tuple(latencies["EXTERNAL"]),
        proxied_ms=tuple(latencies["LINK"]),
    )


def _latency_ms(bootstrap_servers: str, pings: int) -> float:
    """Return the median time from handing a record over until its ack; the first warms up."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})
    found = []
    for _ in range(pings + 1):
        begun = time.perf_counter()
        producer.produce(_TOPIC, b"ping", partition=0)
        if producer.flush(_ACK_S):
            raise WorkloadError(f"a record was not acked within {_ACK_S:g} s")
        found.append((time.perf_counter() - begun) * 1000)
    return statistics.median(found[1:])
