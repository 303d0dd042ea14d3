"""Cost of the Kafka proxy: the same producer through the proxy and directly, in turns.

Throughput: a producer process at full speed. Latency: one record at a time, from `produce` to its
ack. The proxy has no rules.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ackproof.clients.specs import ProducerSpec
from ackproof.errors import WorkloadError
from ackproof.scenario.topics import TopicSpec
from benchmarks.ledger import fresh_broker, send_all

_TOPIC = "link"
_ACK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBench:
    """Records per second, and median latency in milliseconds, of each turn."""

    records: int
    size: int
    direct: tuple[float, ...]
    proxied: tuple[float, ...]
    direct_ms: tuple[float, ...]
    proxied_ms: tuple[float, ...]

    @property
    def throughput(self) -> float:
        """Rate through the proxy divided by the direct rate: median over turns."""
        return statistics.median(a / b for a, b in zip(self.proxied, self.direct, strict=True))

    @property
    def added_ms(self) -> float:
        """Additional latency through the proxy: median over turns."""
        pairs = zip(self.proxied_ms, self.direct_ms, strict=True)
        return statistics.median(a - b for a, b in pairs)


def bench_link(*, records: int, size: int, pings: int, repetitions: int) -> LinkBench:
    """Boot one broker and measure `records` of `size` bytes, and `pings` single records, per turn.

    Raises WorkloadError if a record is not acked, and the same errors as `booted`.
    """
    rates: dict[str, list[float]] = {"EXTERNAL": [], "LINK": []}
    latencies: dict[str, list[float]] = {"EXTERNAL": [], "LINK": []}
    with (
        fresh_broker("LINK") as (cluster, _),
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
    """Return the median time from `produce` to the ack, without a first record as warm-up."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})
    latencies_ms = []
    for _ in range(pings + 1):
        began = time.perf_counter()
        producer.produce(_TOPIC, b"ping", partition=0)
        if producer.flush(_ACK_S):
            raise WorkloadError(f"a record was not acked within {_ACK_S:g} s")
        latencies_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(latencies_ms[1:])
