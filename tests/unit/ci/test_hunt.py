"""What `ci/lab/hunt` explores, stores and says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hunt
import pytest
import truth
from hunt import HUNTS, table


def line(name: str, *found: str, certain: int = 20, seconds: int = 1800) -> dict[str, Any]:
    return {
        "hunt": name,
        "kafka": "4.4.0",
        "limits": "up to 2 SIGKILLs",
        "seconds": seconds,
        "schedules": 30,
        "pairs": 40,
        "certain": certain,
        "found": [*found],
        "cases": ["B56"] if found else [],
        "unknown": [],
    }


def test_the_table_adds_up_what_was_stored() -> None:
    lines = [line("moves", "lost"), line("recommended", certain=10), line("recommended")]
    assert [*table(lines)][2:] == [
        "| recommended | up to 2 SIGKILLs | 1.0 | 60 | 20 of 40 (50%) | nothing | - | 0 |",
        "| moves | up to 2 SIGKILLs | 0.5 | 30 | 20 of 40 (50%) | lost | B56 | 0 |",
        "",
        "1.5 hours in all.",
    ]


#: The anomalies of a run and the cases of its causes: its name has them.
RUNS = {
    "nothing": {},
    "known": {"run-B56": ["unexplained-log", "lost"]},
    "unknown": {"run-B7": ["lost"], "run-unexplained": ["diverged", "lost"]},
}


@pytest.mark.parametrize(("runs", "code"), [("nothing", 0), ("known", 0), ("unknown", 1)])
def test_each_call_is_a_line_with_the_schedules_that_it_added(
    runs: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = tmp_path / "explored-moves" / "results"
    results.mkdir(parents=True)
    (results / "1-00000.json").touch()
    explored = {
        "kafka_version": "4.4.0",
        "budget": "up to 1 SIGKILL",
        "pairs": 40,
        "certain": 8,
        "explored": {
            "schedules": 4,
            "not_counted": {},
            "findings": [
                {"anomaly": one, "run": run} for run, all_of in RUNS[runs].items() for one in all_of
            ],
        },
    }
    asked: list[list[str]] = []

    def run(command: list[Any], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append([*map(str, command)])
        return subprocess.CompletedProcess(command, int(bool(RUNS[runs])), json.dumps([explored]))

    def causes(run: Path) -> SimpleNamespace:
        return SimpleNamespace(causes=[SimpleNamespace(case=run.name.removeprefix("run-"))])

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(hunt, "read_verdict", causes)
    stored = tmp_path / "hunts.jsonl"
    words = ["moves", "--for", "10m", "--at-once", "3", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["hunt", *words, "--results", str(stored)])
    assert hunt.main() == code
    [told] = truth.stored(stored)
    assert (told["hunt"], told["schedules"], told["all_schedules"]) == ("moves", 3, 4)
    assert told["found"] == sorted({one for found in RUNS[runs].values() for one in found})
    assert told["cases"] == sorted({name[4:] for name in RUNS[runs]} - {"unexplained"})
    assert told["unknown"] == (["run-unexplained"] if code else [])
    # Three clusters at once have thirty minutes together, but nothing is explored by more than one.
    assert asked[0][asked[0].index("--for") + 1] == "600s"
    assert asked[0][asked[0].index("--reassignments") + 1] == "1"


def test_every_hunt_is_a_valid_scenario() -> None:
    assert {one.scenario().name for one in HUNTS} == {one.name for one in HUNTS}
    assert all(one.scenario().kafka == hunt.KAFKA for one in HUNTS)
