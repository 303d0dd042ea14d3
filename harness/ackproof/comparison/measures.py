"""What one trial contributes to a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ackproof.runs.verdict import Latency, Likelihood, Verdict, Word
from ackproof.trials import Record


class Measures(Record):
    """Counts, availability, throughput and latency of one trial."""

    verdict: Word
    lost: int
    acked: int
    duplicated: int
    predicted: Likelihood | None
    findings: int
    unavailability_s: float
    #: Share of the trial in which the worst partition acked.
    availability: float
    #: Longest time from the heal of a fault until its nodes had recovered.
    recovery_s: float | None
    acked_per_s: float
    ack_latency_ms: Latency | None

    @property
    def counts(self) -> bool:
        """Whether the trial counts: it lost a record, or it was conclusive and lost none."""
        return self.lost > 0 or self.verdict is not Word.INCONCLUSIVE


#: The measures besides loss by which pairs are compared; None where a trial has no value.
MEASURES: Mapping[str, Callable[[Measures], float | None]] = {
    "unavailability_s": lambda m: m.unavailability_s,
    "recovery_s": lambda m: m.recovery_s,
    "ack_latency_p50_ms": lambda m: m.ack_latency_ms.p50 if m.ack_latency_ms else None,
    "ack_latency_p99_ms": lambda m: m.ack_latency_ms.p99 if m.ack_latency_ms else None,
    "acked_per_s": lambda m: m.acked_per_s,
}


def measures(verdict: Verdict) -> Measures:
    metrics = verdict.metrics
    down = metrics.unavailability_s / metrics.duration_s if metrics.duration_s else 0.0
    recoveries = [
        (fault.recovered_at - fault.healed_at).total_seconds()
        for fault in verdict.faults
        if fault.recovered_at is not None and fault.healed_at is not None
    ]
    return Measures(
        verdict=verdict.verdict,
        lost=verdict.observed.get("lost", 0),
        acked=verdict.observed.get("acked", 0),
        duplicated=verdict.observed.get("duplicated", 0),
        predicted=verdict.predicted.get("lost"),
        findings=len(verdict.findings),
        unavailability_s=metrics.unavailability_s,
        availability=1 - min(1.0, down),
        recovery_s=max(recoveries, default=None),
        acked_per_s=metrics.acked_per_s,
        ack_latency_ms=metrics.ack_latency_ms,
    )
