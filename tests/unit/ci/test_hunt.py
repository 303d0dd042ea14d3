"""What `ci/lab/hunt` explores, stores and says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hunt
import pytest
import truth
from hunt import HUNTS, table

#: In the place of `ackproof`: says what the environment says, or is interrupted.
PROGRAM = f"""#!{sys.executable}
import os, pathlib, signal, sys
with open(os.environ["ASKED"], "a") as asked:
    asked.write(" ".join(sys.argv[2:]) + "\\n")
if os.environ["SAYS"] == "wait":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.kill(int(os.environ["PARENT"]), signal.SIGTERM)
    signal.sigwait([signal.SIGINT])
    pathlib.Path(os.environ["ASKED"]).with_name("interrupted").touch()
    sys.exit(3)
print(os.environ["SAYS"])
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ackproof"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    monkeypatch.setattr(hunt, "ACKPROOF", path)
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return path


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
        "unknown": ["one", "two"] if found else [],
    }


def test_the_table_adds_up_what_was_stored() -> None:
    new_folder = line("recommended", certain=10)
    lines = [line("moves", "lost"), line("recommended"), new_folder, line("moves", certain=9)]
    assert [*table(lines)][2:] == [
        "| recommended | up to 2 SIGKILLs | 1.0 | 60 | 20 of 40 (50%) | nothing |",
        "| moves | up to 2 SIGKILLs | 1.0 | 60 | 20 of 40 (50%) | "
        "lost (B56; without a known case in 2 runs) |",
        "",
        "2.0 hours in all.",
    ]


#: The anomalies of a run and the cases of its causes: its name has them.
RUNS: dict[str, dict[str, list[str]]] = {
    "nothing": {},
    "known": {"run-B56": ["unexplained-log", "lost"]},
    "unknown": {"run-B7": ["lost"], "run-unexplained": ["diverged", "lost"]},
}


@pytest.mark.parametrize(("runs", "code"), [("nothing", 0), ("known", 0), ("unknown", 1)])
def test_each_call_is_a_line_with_the_schedules_that_it_added(
    runs: str, code: int, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setenv("SAYS", json.dumps([explored]))
    monkeypatch.setenv("CODE", str(int(bool(RUNS[runs]))))

    def causes(run: Path) -> SimpleNamespace:
        return SimpleNamespace(causes=[SimpleNamespace(case=run.name.removeprefix("run-"))])

    monkeypatch.setattr(hunt, "read_verdict", causes)
    monkeypatch.setattr(hunt, "end_as_by_ctrl_c", lambda: None)
    stored = tmp_path / "hunts.jsonl"
    words = ["moves", "--for", "10m", "--at-once", "3", "--seed", "7", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["hunt", *words, "--results", str(stored)])
    assert hunt.main() == code
    [told] = truth.stored(stored)
    assert (told["hunt"], told["schedules"], told["all_schedules"]) == ("moves", 3, 4)
    assert told["seed"] == 7
    assert told["found"] == sorted({one for found in RUNS[runs].values() for one in found})
    assert told["cases"] == sorted({name[4:] for name in RUNS[runs]} - {"unexplained"})
    assert told["unknown"] == (["run-unexplained"] if code else [])
    # Three clusters at once have thirty minutes together, but nothing is explored by more than one.
    [asked] = (tmp_path / "asked").read_text().splitlines()
    assert "--for 600s" in asked
    assert "--seed 7" in asked
    assert "--reassignments 1" in asked


def test_an_exploration_that_fails_is_named_and_the_others_go_on(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SAYS", "")
    monkeypatch.setenv("CODE", "4")
    monkeypatch.setattr(hunt, "end_as_by_ctrl_c", lambda: None)
    words = ["moves", "elections", "--out", str(tmp_path), "--at-once", "1"]
    monkeypatch.setattr(sys, "argv", ["hunt", *words, "--results", str(tmp_path / "none")])
    assert hunt.main() == 1
    said = capsys.readouterr().out
    assert f"moves: explore ended with 4; see {tmp_path / 'moves.log'}" in said
    assert "elections: explore ended with 4" in said


def test_sigterm_ends_the_exploration_that_runs_and_begins_no_other(
    program: Path, tmp_path: Path
) -> None:
    results = tmp_path / "hunts.jsonl"
    own = f"import hunt, os, pathlib; hunt.ACKPROOF = pathlib.Path({str(program)!r}); "
    own += "os.environ['PARENT'] = str(os.getpid()); hunt.main()"
    words = ["moves", "elections", "--at-once", "1"]
    words += ["--out", str(tmp_path), "--results", str(results)]
    ended = subprocess.run(
        [sys.executable, "-c", own, *words],
        env={**os.environ, "SAYS": "wait", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGINT
    assert (tmp_path / "interrupted").exists()
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
    assert not results.exists()


def test_every_hunt_is_a_valid_scenario() -> None:
    assert {one.scenario().name for one in HUNTS} == {one.name for one in HUNTS}
    assert all(one.scenario().kafka == hunt.KAFKA for one in HUNTS)
