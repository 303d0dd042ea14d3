"""Trials of a comparison or a shrink without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ackproof.runs.directory import write_model
from ackproof.runs.verdict import Latency, Metrics, PredictionReport, Verdict, Word
from ackproof.scenario.loader import Configured, load

SCENARIOS = Path(__file__).parents[2] / "scenarios"
ACKS = load(SCENARIOS / "acks.yaml")
NAMES = ["acks=0", "acks=1", "acks=all, min.insync.replicas=2"]

Loses = Callable[[Configured], int | BaseException]


class FakeTrials:
    """Run trials without a cluster; `loses(configured)` returns the number of lost records."""

    def __init__(self, loses: Loses, *, out: Path = Path()) -> None:
        self.loses = loses
        self.out = out
        self.tried: list[Configured] = []
        #: The configuration that was to run after each of these; empty if it was the last.
        self.following: list[str] = []

    def __call__(
        self, configured: Configured, *, then: Configured | None = None
    ) -> tuple[Path, Verdict]:
        self.tried.append(configured)
        self.following.append(then.name if then else "")
        lost = self.loses(configured)
        if isinstance(lost, BaseException):
            raise lost
        run_dir = self.out / f"run-{len(list(self.out.iterdir()))}"
        run_dir.mkdir()
        seed, number = configured.scenario.seed, len(self.tried)
        made = verdict(configured, seed, run_dir.name, lost=lost, number=number)
        write_model(run_dir / "verdict.json", made)
        return run_dir, made


def verdict(
    configured: Configured, seed: int, run_id: str, *, lost: int, number: int = 1
) -> Verdict:
    began = datetime(2026, 11, 21, 12, tzinfo=UTC)
    slow = 3.0 if "all" in configured.name else 1.0
    return Verdict(
        run_id=run_id,
        scenario=configured.scenario.name,
        configuration_name=configured.name,
        seed=seed,
        kafka_version="4.3.1",
        image="none",
        started_at=began,
        finished_at=began + timedelta(seconds=30),
        verdict=Word.INCONCLUSIVE if lost < 0 else Word.HOLDS,
        reason="as expected",
        observed={"sent": 1000, "acked": 1000, "lost": max(lost, 0), "duplicated": 0},
        predicted={"lost": "possible"},
        prediction=PredictionReport(trace=[], reasons={}, bounds="none"),
        findings=[],
        expectations=[],
        faults=[],
        metrics=Metrics(
            duration_s=20,
            acked_per_s=1000 / slow,
            unavailability_s=slow + number / 1000,
            unavailability_gap_s=0.5,
            ack_latency_ms=Latency(p50=1, p95=2, p99=10 * slow + number / 100, p999=40, max=50),
        ),
        configuration=configured.varied,
    )


def all_loses_nothing(configured: Configured) -> int:
    return 0 if "all" in configured.name else 100
