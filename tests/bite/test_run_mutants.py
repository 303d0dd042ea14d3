"""Damaged and falsified runs are noticed, and reordered ones have the same verdict.

`ACKPROOF_MUTANTS=10000 ACKPROOF_RUNS=runs/one:runs/two` (`ci/lab/run-mutants`) uses more mutants,
and runs of real clusters.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackproof.clients.shared_page import State
from ackproof.errors import RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.runs import directory as runs
from ackproof.runs.recovery import recover_run, seal
from ackproof.runs.verdict import Verdict, Word
from bite.damage import damage
from bite.judged_together import judged_together
from bite.mutant import Mutant, copy
from bite.run_mutants import falsify, reorder
from spark_histories import parse
from support.run_directories import RunDirectory, at, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MUTANTS = int(os.environ.get("ACKPROOF_MUTANTS", "66"))
#: Copies of a run that Spark compares together; for each ten falsified ones, one is reordered.
BATCH = int(os.environ.get("ACKPROOF_TOGETHER", "500"))
#: Falsified copies that Spark also compares one by one, which takes seconds each.
ALONE = int(os.environ.get("ACKPROOF_ALONE", str(max(1, MUTANTS // 500))))
SEED = int(os.environ.get("ACKPROOF_SEED", "1"))
SENDS = 60

KILL = {"fault": "kill", "target": "leader of orders-0", "when": "3 acked", "heal_after": "1s"}
KILLED = {
    "fault": "kill",
    "target": "leader of orders-0",
    "nodes": [1],
    "parameters": "{}",
    "verified": True,
    "evidence": "broker 1 ended by SIGKILL",
}
TIMES = ("injected_at", "verified_at", "healed_at", "recovered_at")


def _stored(folder: Path) -> Path:
    sends = [f"{p}/{n} to 0: acked at {2 * n + p}" for n in range(SENDS) for p in (0, 1)]
    log = [f"0@{2 * n + p}: {p}/{n}" for n in range(SENDS) for p in (0, 1)]
    run_dir = store(
        folder / "run", parse({"sends": sends, "log": log, "ends": [f"0: 0-{2 * SENDS}"]})
    )
    run = RunDirectory(path=run_dir).change_scenario(faults=[KILL]).clients("producer-0.json")
    run.write("fault_windows", [{**KILLED, **{name: at(s) for s, name in enumerate(TIMES, 1)}}])
    run.page("producer-0", State.DONE, 2 * SENDS, 2 * SENDS)
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
    """The verdicts of the recorded runs."""
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


def same(verdict: Verdict, other: Verdict) -> bool:
    """Whether two verdicts are equal, and their reasons."""
    parts = ("verdict", "reason", "observed", "findings", "expectations")
    return all(getattr(verdict, name) == getattr(other, name) for name in parts)


def noticed(verdict: Verdict | None, before: Verdict) -> bool:
    """Whether the mutant was refused, or its verdict, a count or a finding shows it."""
    if verdict is None or verdict.verdict is not Word.HOLDS:
        return True
    counted = {key: count for key, count in before.observed.items() if key in verdict.observed}
    # A missing count shows nothing.
    return len(verdict.findings) > len(before.findings) or verdict.observed != counted


def test_a_damaged_file_is_always_refused(recorded: list[Path], place: Path) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(SEED, SEED + MUTANTS):
        mutant = damage(recorded[seed % len(recorded)], place / str(seed), seed)
        assert refused(mutant), mutant.what
        kinds[mutant.what.partition(" ")[0]] += 1
        shutil.rmtree(mutant.run_dir)
    print(f"{MUTANTS} damaged runs refused: {dict(kinds)}")  # noqa: T201  ci/lab/run-mutants shows it


@pytest.mark.slow
@pytest.mark.spark
def test_falsified_runs_are_noticed_and_reordered_ones_hold(
    spark: SparkSession, before: dict[Path, Verdict], place: Path
) -> None:
    assert {one.verdict for one in before.values()} == {Word.HOLDS}
    answers: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    wrong = []
    for first, run_dir in zip(range(SEED, SEED + MUTANTS, BATCH), cycle(before), strict=False):
        expected = before[run_dir]
        with tempfile.TemporaryDirectory(dir=place) as text:
            folder = Path(text)
            seeds = range(first, min(first + BATCH, SEED + MUTANTS))
            falsified = [falsify(run_dir, folder / str(seed), seed) for seed in seeds]
            legal = [reorder(run_dir, folder / f"r{seed}", seed) for seed in seeds[::10]]
            legal.append(Mutant(run_dir=copy(run_dir, folder / "same"), what="unchanged"))
            mutants = [*falsified, *legal]
            judged = judged_together(
                spark, run_dir, [one.run_dir for one in mutants], folder / "together"
            )
        for mutant, verdict in zip(mutants, judged, strict=True):
            answer = "refused" if verdict is None else str(verdict.verdict)
            what = mutant.what.partition(" (")[0]
            answered = f"{mutant.what} of {run_dir.name}: {answer}"
            if mutant in legal:
                if verdict is None or not same(verdict, expected):
                    wrong.append(answered)
                answers[f"{what.split()[0]} {answer}"] += 1
                continue
            if not noticed(verdict, expected):
                wrong.append(answered)
            elif answer == Word.HOLDS:
                answer += ", and shows"  # a count that is not zero, or a finding
            answers[f"falsified {answer}"] += 1
            changes[f"{what}: {answer}"] += 1
        print(f"seeds {first} to {seeds[-1]} of {run_dir.name}: {dict(answers)}, wrong: {wrong}")  # noqa: T201
    print("\n".join(f"{count:6} {change}" for change, count in sorted(changes.items())))  # noqa: T201
    assert wrong == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_falsified_run_has_the_same_verdict_alone_and_among_others(
    spark: SparkSession, before: dict[Path, Verdict], place: Path
) -> None:
    for number, run_dir in zip(range(ALONE), cycle(before), strict=False):
        seed = SEED + number
        mutant = falsify(run_dir, place / str(seed), seed)
        together = judged_together(spark, run_dir, [mutant.run_dir], place / f"together-{seed}")[0]
        alone = judged(mutant)
        print(f"{mutant.what} of {run_dir.name}: {alone and alone.reason}")  # noqa: T201
        assert (alone is None) == (together is None), mutant.what
        if alone is not None and together is not None:
            assert same(together, alone), mutant.what
