"""No damaged or falsified run holds, and no reordered one raises an alarm.

`ACKPROOF_MUTANTS=10000 ACKPROOF_RUNS=runs/one:runs/two` (`ci/run-mutants`) takes more, and runs of
real clusters.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.runs import directory as runs
from ackproof.runs.recovery import recover_run, seal
from ackproof.runs.verdict import Verdict, Word
from bite.run_mutants import Mutant, damage, falsify, reorder
from spark_histories import parse
from stored_runs import store

MUTANTS = int(os.environ.get("ACKPROOF_MUTANTS", "100"))
#: Mutants that Spark has to judge take seconds each.
JUDGED = int(os.environ.get("ACKPROOF_JUDGED_MUTANTS", str(MUTANTS // 50)))
SEED = int(os.environ.get("ACKPROOF_SEED", "1"))
SENDS = 60


def _stored(folder: Path) -> Path:
    sends = [f"{p}/{n} to 0: acked at {2 * n + p}" for n in range(SENDS) for p in (0, 1)]
    log = [f"0@{2 * n + p}: {p}/{n}" for n in range(SENDS) for p in (0, 1)]
    run_dir = store(
        folder / "run", parse({"sends": sends, "log": log, "ends": [f"0: 0-{2 * SENDS}"]})
    )
    seal(run_dir, runs.read_record(run_dir).model_copy(update={"readers": ["kafka"]}))
    return run_dir


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    given = os.environ.get("ACKPROOF_RUNS", "")
    return [Path(one) for one in given.split(":") if one] or [
        _stored(tmp_path_factory.mktemp("recorded"))
    ]


@pytest.fixture(scope="module")
def before(spark: object, recorded: list[Path]) -> dict[Path, Verdict]:
    """The verdicts of the runs as they were recorded."""
    return {run_dir: judge_run(run_dir) for run_dir in recorded}


@pytest.fixture
def place(recorded: list[Path]) -> Iterator[Path]:
    """A folder on the disk of the runs, whose files mutants link to."""
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=recorded[0].parent) as folder:
        yield Path(folder)


def refused(mutant: Mutant) -> bool:
    try:
        recover_run(mutant.run_dir)
    except RunDirectoryError:
        return True
    return False


def judged(mutant: Mutant) -> Verdict | None:
    try:
        return judge_run(mutant.run_dir)
    except RunDirectoryError:
        return None


def noticed(mutant: Mutant, verdict: Verdict | None, before: Verdict) -> bool:
    """Whether the mutant was refused, or its verdict, a count or a finding tells of it."""
    if verdict is None or verdict.verdict is not Word.HOLDS:
        return True
    return len(verdict.findings) > len(before.findings) or verdict.observed != before.observed


def test_a_damaged_file_is_always_refused(recorded: list[Path], place: Path) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(SEED, SEED + MUTANTS):
        mutant = damage(recorded[seed % len(recorded)], place / str(seed), seed)
        assert refused(mutant), mutant.what
        kinds[mutant.what.partition(" ")[0]] += 1
        shutil.rmtree(mutant.run_dir)
    print(f"{MUTANTS} damaged runs refused: {dict(kinds)}")  # noqa: T201  ci/run-mutants shows it


@pytest.mark.spark
def test_a_falsified_run_never_holds_unnoticed(
    before: dict[Path, Verdict], recorded: list[Path], place: Path
) -> None:
    assert {one.verdict for one in before.values()} == {Word.HOLDS}
    answers: Counter[str] = Counter()
    unnoticed = []
    for seed in range(SEED, SEED + JUDGED):
        run_dir = recorded[seed % len(recorded)]
        mutant = falsify(run_dir, place / str(seed), seed)
        verdict = judged(mutant)
        answer = "refused" if verdict is None else str(verdict.verdict)
        print(f"{mutant.what} of {run_dir.name}: {answer}")  # noqa: T201  ci/run-mutants shows it
        answers[answer] += 1
        if not noticed(mutant, verdict, before[run_dir]):
            unnoticed.append(f"{mutant.what} of {run_dir.name}")
        shutil.rmtree(mutant.run_dir)
    print(f"{JUDGED} falsified runs: {dict(answers)}")  # noqa: T201  ci/run-mutants shows it
    assert unnoticed == []


@pytest.mark.spark
def test_a_reordered_run_raises_no_alarm(
    before: dict[Path, Verdict], recorded: list[Path], place: Path
) -> None:
    for seed in range(SEED, SEED + max(1, JUDGED // 10)):
        run_dir = recorded[seed % len(recorded)]
        mutant = reorder(run_dir, place / str(seed), seed)
        verdict = judge_run(mutant.run_dir)
        assert (verdict.verdict, verdict.observed) == (Word.HOLDS, before[run_dir].observed)
        shutil.rmtree(mutant.run_dir)
    print(f"{max(1, JUDGED // 10)} reordered runs hold")  # noqa: T201  ci/run-mutants shows it
