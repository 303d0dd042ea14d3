"""Summaries of made-up comparisons with trials."""

from __future__ import annotations

from ackproof.comparison.statistics import Design, Sequential
from ackproof.comparison.store import ComparisonPlan, ConfigurationTrial, Measures
from ackproof.comparison.summary import Summary, counts, summarise
from ackproof.runs.verdict import Latency, Word

SAFE, RISKY, WORSE = "acks=all", "acks=1", "acks=0"


def trial(name: str, number: int, *, lost: int, away: float, p99: float) -> ConfigurationTrial:
    return ConfigurationTrial(
        configuration=name,
        round=number,
        run_id=f"{name}-{number}",
        seconds=30,
        measures=Measures(
            verdict=Word.HOLDS,
            sent=1000,
            acked=1000,
            failed=0,
            unknown=0,
            lost=lost,
            lost_to_cut=0,
            cut="",
            duplicated=0,
            stopped=[],
            predicted="possible",
            findings=0,
            duration_s=20,
            fault_s=10,
            unavailability_s=away + number / 100,
            recovery_s=2.0,
            acked_per_s=1000 / away,
            ack_latency_ms=Latency(p50=1, p95=2, p99=p99 + number, p999=2 * p99, max=3 * p99),
        ),
    )


def summary(*, worse_lost: int = 100, rounds: int = 12) -> Summary:
    names = [WORSE, RISKY, SAFE]
    plan = ComparisonPlan(
        comparison_id="c",
        configurations=names,
        settings={name: {"Kafka": "4.4.0", "acks": name.removeprefix("acks=")} for name in names},
        seed=1,
        trials=30,
        confidence=0.95,
        margin=0.2,
    )
    trials = [
        each
        for number in range(1, rounds + 1)
        for each in (
            trial(WORSE, number, lost=worse_lost, away=5.0, p99=300),
            trial(RISKY, number, lost=100, away=1.0, p99=10),
            trial(SAFE, number, lost=0, away=3.0, p99=200),
        )
    ]
    progress = Sequential(Design.for_trials(30), names, margin=0.2)
    for until in (done for done in progress.design.looks if done <= rounds):
        progress.update(counts([trial for trial in trials if trial.round <= until], names))
    return summarise(plan, trials, progress, ended="settled")
