from __future__ import annotations

from ackproof.judgement.conclusiveness import claimable
from ackproof.runs.verdict import Latency, Metrics


def test_a_client_bottleneck_removes_the_latency() -> None:
    latency = Latency(p50=1, p95=1, p99=1, p999=1, max=1)
    measured = Metrics(
        duration_s=1,
        acked_per_s=1,
        unavailability_s=0,
        unavailability_gap_s=1,
        ack_latency_ms=latency,
    )
    assert claimable(measured, []).ack_latency_ms == latency
    assert claimable(measured, ["producer 0 was busy 99% of the time"]).ack_latency_ms is None
