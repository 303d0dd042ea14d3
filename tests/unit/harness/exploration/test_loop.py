"""The loop around recording and judging, with both replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ackproof.errors import ClusterError, DiskError
from ackproof.exploration import loop
from ackproof.exploration.folder import Folder
from ackproof.exploration.loop import Explorer
from ackproof.exploration.passed import Passed
from ackproof.exploration.results import NOT_RUN, Proposal, Schedule
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Finding
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof.scenario.workload import Transactions
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair, Reached
from ackproof_model.planning import carried_out
from unit.harness.exploration.explorations import SCENARIO, opened, proposed_again, reached
from unit.reference_model.planning.schedules import OUTSIDE, REJOINED, REJOINING
from waiting import until

TRANSACTIONAL = SCENARIO.model_copy(
    update={
        "workload": SCENARIO.workload.model_copy(update={"transactions": Transactions(size=10)})
    }
)

FOUND = Finding(anomaly="lost", predicted="impossible", observed=3, explanation="3 are gone")


class Runs:
    """Runs without brokers: each passes through what its plan does.

    `fail` raises beforehand, and `until_stored` waits for the result of the run before.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.recorded: list[str] = []
        self.fail: dict[int, BaseException] = {}
        self.until_stored: set[int] = set()
        self.findings: dict[int, list[Finding]] = {}
        self.lost: dict[int, int] = {}

    def record(self, configured: Any, **_: object) -> Path:
        number = len(self.recorded)
        self.recorded.append(configured.scenario.name)
        if number in self.until_stored:
            until(lambda: len(list((self.folder.path / "results").glob("*.json"))) == number)
        if number in self.fail:
            raise self.fail[number]
        run_dir = self.folder.runs / str(number)
        run_dir.mkdir()
        return run_dir

    def judge(self, run_dir: Path) -> Any:
        number = int(run_dir.name)
        return SimpleNamespace(
            verdict="holds",
            reason="as expected",
            findings=self.findings.get(number, []),
            observed={"lost": self.lost.get(number, 0)},
            predicted={"lost": "possible"},
            causes=[],
        )

    def passed(self, run_dir: Path, _: Reached) -> Passed:
        number = int(run_dir.name)
        every = sorted(reached().pairs)
        return Passed(certain=frozenset[Pair](every[number : number + 2]))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    folder, _ = opened(tmp_path / "explored")
    runs = Runs(folder)
    monkeypatch.setattr(loop, "recorded", runs.record)
    monkeypatch.setattr(loop, "judge_run", runs.judge)
    monkeypatch.setattr(loop, "passed_in", runs.passed)
    return runs


def explore(
    runs: Runs, *, most: int, model: AdversaryModel | None = None, scenario: Scenario = SCENARIO
) -> str:
    """Run this many schedules; return what was reported."""
    console = Console(record=True, width=200)
    rounds: Iterator[int] = count()
    folder, ways = opened(runs.folder.path)
    Explorer(
        scenario=scenario,
        everything=replace(reached(), model=model or reached().model),
        folder=folder,
        ways=ways,
        seed=3,
        engine=None,
        reporter=ConsoleReporter(console),
    ).explore(lambda: next(rounds) < most)
    return console.export_text()


def test_each_result_is_stored_and_another_call_continues(runs: Runs) -> None:
    text = explore(runs, most=3)
    assert "3-00002: holds, 1 new pairs, 4 of 40 (10%)" in text
    explore(runs, most=2)
    results = runs.folder.results()
    assert list(results) == [f"3-0000{number}" for number in range(5)]
    assert [one.new for one in results.values()] == [2, 1, 1, 1, 1]
    assert runs.recorded == [f"orders-{name}" for name in results]
    for result in results.values():
        plan = carried_out(reached().model, result.proposal.schedule.operations)
        assert plan is not None
        again = proposed_again(result, results, opened(runs.folder.path)[1])
        assert again == result.proposal


def test_a_run_is_kept_if_it_found_something_or_was_new(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "passed_in", lambda *_: Passed(why_not="it is not explained"))
    runs.findings[1] = [FOUND]
    text = explore(runs, most=3)
    assert "FOUND lost: 3 are gone" in text
    assert "3-00000: holds, 0 new pairs, 0 of 40 (does not count: it is not explained)" in text
    assert [one.run for one in runs.folder.results().values()] == ["", "1", ""]
    [written] = (runs.folder.path / "findings").iterdir()
    (found,) = load(written)
    assert written.name == "found-lost.yaml"
    assert found.scenario.description == "lost in 1 of 1 runs; 3-00001: 3 are gone"
    assert [path.name for path in runs.folder.runs.iterdir()] == ["1"]


def test_a_loss_that_the_model_predicts_is_found_where_kafka_promises_none(runs: Runs) -> None:
    runs.lost[1] = 4
    text = explore(runs, most=2)
    assert "FOUND lost: 4 records that acks=all acknowledged are lost" in text
    assert [len(one.findings) for one in runs.folder.results().values()] == [0, 1]
    # A contradiction of the model says the same: one finding.
    runs.lost[2], runs.findings[2] = 3, [FOUND]
    explore(runs, most=1)
    assert runs.folder.results()["3-00002"].findings == (FOUND,)


@pytest.mark.parametrize(
    ("certain", "scenario", "anomalies"),
    [([], SCENARIO, []), ([OUTSIDE], SCENARIO, ["lost"]), ([OUTSIDE], TRANSACTIONAL, [])],
    ids=["perhaps in it", "outside", "perhaps in that of a coordinator"],
)
def test_a_power_loss_outside_the_isr_is_one_that_the_run_shows_there(
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    certain: list[Pair],
    scenario: Scenario,
    anomalies: list[str],
) -> None:
    monkeypatch.setattr(loop, "passed_in", lambda *_: Passed(certain=frozenset(certain)))
    rejoined = Proposal(schedule=Schedule(operations=REJOINED, records=5), origin="aimed")
    monkeypatch.setattr(loop, "next_schedule", lambda *_, **__: rejoined)
    runs.lost[0] = 4
    explore(runs, most=1, model=REJOINING, scenario=scenario)
    [result] = runs.folder.results().values()
    assert [one.anomaly for one in result.findings] == anomalies


def test_an_interrupt_keeps_what_was_judged(runs: Runs) -> None:
    runs.fail[2] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        explore(runs, most=9)
    assert list(runs.folder.results()) == ["3-00000", "3-00001"]
    explore(runs, most=1)
    assert list(runs.folder.results()) == ["3-00000", "3-00001", "3-00002"]


def test_a_result_is_stored_while_the_next_run_is_recorded(runs: Runs) -> None:
    """Also if that run hangs and is interrupted: its result is stored once."""
    runs.until_stored = {1, 2, 3}
    runs.fail[3] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        explore(runs, most=9)
    results = runs.folder.results().values()
    assert [one.known for one in results] == [{}, {}, {3: 1}], "whatever is stored sooner"
    assert [(one.number, one.new, one.run) for one in results] == [
        (0, 2, "0"),
        (1, 1, "1"),
        (2, 1, "2"),
    ]
    assert sorted(path.name for path in runs.folder.runs.iterdir()) == ["0", "1", "2"]


def test_an_interrupt_drops_the_run_whose_judge_it_ended(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.fail[1] = KeyboardInterrupt()

    def ended(run_dir: Path) -> Any:
        raise ClusterError("Spark has ended")

    monkeypatch.setattr(loop, "judge_run", ended)
    with pytest.raises(KeyboardInterrupt):
        explore(runs, most=9)
    assert not runs.folder.results()


def test_a_run_that_fails_is_stored_and_three_in_a_row_end_it(runs: Runs) -> None:
    runs.fail = {number: ClusterError("broker 2 is dead") for number in (1, 3, 4, 5)}
    with pytest.raises(ClusterError, match="broker 2 is dead"):
        explore(runs, most=9)
    verdicts = [one.verdict for one in runs.folder.results().values()]
    assert verdicts == ["holds", NOT_RUN, "holds", NOT_RUN, NOT_RUN]
    assert len(runs.recorded) == 6


def test_a_full_disk_ends_it_at_once(runs: Runs) -> None:
    runs.fail[1] = DiskError("the disk is full")
    with pytest.raises(DiskError):
        explore(runs, most=9)
    assert list(runs.folder.results()) == ["3-00000"]
