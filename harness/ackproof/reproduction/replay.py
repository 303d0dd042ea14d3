"""Comparison of a replay with the run that it repeats: `replay.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from ackproof.reproduction.recorded_run import fault_windows, progress_marks
from ackproof.runs.directory import read_verdict
from ackproof.runs.verdict import FaultReport, Record, Verdict, Word


class ObservedPair(Record):
    """A count of a run and of its replay."""

    what: str
    then: int
    now: int


class StepPair(Record):
    """A fault of a run and of its replay; `now_*` is None if it did not begin in the replay."""

    fault: str
    target: str
    #: As `FaultReport.hit`.
    hit: str | None = None
    then_nodes: list[int]
    now_nodes: list[int] | None
    then_acked: int
    now_acked: int | None


class Replay(Record):
    """`replay.json`. `same`: equal verdict, steps and kinds of anomaly."""

    schema_version: int = 1
    run_id: str
    replays: str
    then: Word
    now: Word
    same: bool
    observed: list[ObservedPair]
    steps: list[StepPair]
    notes: list[str] = Field(default_factory=list)


def compare_runs(then: Path, now: Path, *, notes: Sequence[str] = ()) -> Replay:
    """Compare a run with its replay; both must have a verdict."""
    before, after = read_verdict(then), read_verdict(now)
    steps = _steps(then, now)
    return Replay(
        run_id=after.run_id,
        replays=before.run_id,
        then=before.verdict,
        now=after.verdict,
        same=before.verdict is after.verdict
        and _anomalies(before) == _anomalies(after)
        and all(step.now_acked is not None for step in steps),
        observed=[
            ObservedPair(what=key, then=before.observed.get(key, 0), now=after.observed.get(key, 0))
            for key in dict.fromkeys([*before.observed, *after.observed])
        ],
        steps=steps,
        notes=list(notes),
    )


def _anomalies(verdict: Verdict) -> set[str]:
    return {key for key in verdict.predicted if verdict.observed.get(key)}


def _steps(then: Path, now: Path) -> list[StepPair]:
    earlier, later = fault_windows(then), fault_windows(now)
    acked = [
        [mark.acked for mark in progress_marks(run_dir, [row["injected_at"] for row in rows])]
        for run_dir, rows in ((then, earlier), (now, later))
    ]
    return [
        StepPair(
            fault=row["fault"],
            target=row["target"],
            hit=FaultReport.of_window(row).hit,
            then_nodes=row["nodes"],
            now_nodes=later[index]["nodes"] if index < len(later) else None,
            then_acked=acked[0][index],
            now_acked=acked[1][index] if index < len(later) else None,
        )
        for index, row in enumerate(earlier)
    ]
