"""`ackproof explore` with the folder of an exploration, without brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ackproof.errors import ScenarioError
from ackproof.exploration.folder import Folder
from ackproof.exploration.results import NOT_RUN, Proposal, Result, Schedule
from ackproof.runs.verdict import Finding
from ackproof.scenario.loader import dump
from ackproof_model.coverage import Pair
from ackproof_model.planning import Operation, OperationKind
from command_line import captured, invoked
from unit.harness.exploration.explorations import SCENARIO, opened, reached

ONE_KILL = ("--kills", "1", "--power-losses", "0", "--shrinks", "0", "--in-all", "1")
FOUND = Finding(anomaly="lost", predicted="impossible", observed=3, explanation="3 are gone")


def result(number: int, *, verdict: str = "holds", **fields: object) -> Result:
    schedule = Schedule(operations=(Operation(kind=OperationKind.KILL, broker=0),), records=5)
    proposal = Proposal(schedule=schedule, origin="aimed")
    return Result.model_validate(
        {
            "seed": 1,
            "number": number,
            "known": {},
            "proposal": proposal,
            "verdict": verdict,
            "reason": "",
            **fields,
        }
    )


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    dump(SCENARIO, path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder, _ = opened(tmp_path / "runs" / "explored-orders")
    passed: tuple[Pair, ...] = tuple(sorted(reached().pairs)[:4])
    folder.add(result(0, certain=passed[:3], possible=passed[2:], new=3))
    folder.add(result(1, verdict=NOT_RUN, not_counted="it could not be run"))
    return folder


def test_stored_results_count(tmp_path: Path, scenario: Path, folder: Folder) -> None:
    shown = invoked("explore", scenario, *ONE_KILL, "--out", tmp_path / "runs")
    assert shown.exit_code == 0, shown.output
    assert "explored: 2 schedules (1 holds, 1 not run)" in shown.stdout
    assert "1 of them do not count: it could not be run" in shown.stdout
    assert "1 runs count: 3 pairs passed for certain (8%), 1 more perhaps" in shown.stdout


def test_a_finding_is_listed_and_makes_the_exit_code_1(
    tmp_path: Path, scenario: Path, folder: Folder
) -> None:
    folder.add(result(2, findings=[FOUND], run="20261129T180000Z-orders-1-00002-1"))
    shown = invoked("explore", scenario, *ONE_KILL, "--out", tmp_path / "runs")
    assert shown.exit_code == 1
    assert "FOUND in 1-00002 (runs/20261129T180000Z-orders-1-00002-1), lost: 3" in shown.stdout
    assert "by the schedule: kill 2; found in 1 of its 3 runs, and in 1 of all 3" in shown.stdout
    assert "are not complete: --for goes on with them" in shown.stdout
    made = invoked("explore", scenario, *ONE_KILL, "--out", tmp_path / "runs", "--json")
    assert made.exit_code == 1
    [document] = json.loads(made.stdout)
    explored = document["explored"]
    assert explored["schedules"] == 3
    assert explored["verdicts"] == {"holds": 2, "not run": 1}
    assert explored["not_counted"] == {"1-00001": "it could not be run"}
    [found] = explored["findings"]
    assert (found["result"], found["schedule"], found["observed"]) == ("1-00002", ["kill 2"], 3)
    assert explored["examined"] == [
        {
            "anomaly": "lost",
            "smallest": "1-00002",
            "schedule": ["kill 2"],
            "results": 1,
            "runs": 3,
            "shown": 1,
            "done": False,
        }
    ]


def test_transactions_and_log_directories_are_explorations_of_their_own(
    tmp_path: Path, scenario: Path, folder: Folder
) -> None:
    """They change no pair, so the model has one question for all."""
    arms = {
        "plain": {},
        "transactions": {"workload": {"transactions": {"size": 5}}},
        "directories": {"cluster": {"log_dirs": 2}},
        "other load": {"workload": {"rate": 50}},
    }
    document = YAML(typ="safe").load(scenario)
    with scenario.open("w") as file:
        YAML().dump(document | {"matrix": arms}, file)
    made = invoked("explore", scenario, *ONE_KILL, "--out", tmp_path / "all", "--json")
    assert len(json.loads(made.stdout)) == 3, made.output
    with scenario.open("w") as file:
        YAML().dump(document | {"cluster": {"log_dirs": 2}}, file)
    with pytest.raises(ScenarioError, match="explores something else: log_dirs is 1, not 2"):
        invoked("explore", scenario, *ONE_KILL, "--out", tmp_path / "runs", "--for", "1m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kills", "2"), "explores something else: kills is 1, not 2; in_all is 1, not 2"),
        ((*ONE_KILL, "--for", "soon"), "'soon' is not a time; write 90s, 30m or 2h"),
        (("--kills", "0", "--power-losses", "0", "--shrinks", "0"), "nothing to explore"),
    ],
    ids=["limits", "time", "nothing"],
)
def test_bad_input_is_refused_before_anything_runs(
    tmp_path: Path, scenario: Path, folder: Folder, options: tuple[str, ...], message: str
) -> None:
    common = ("--power-losses", "0", "--shrinks", "0")
    ended = captured("explore", scenario, *common, *options, "--out", tmp_path / "runs")
    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.split())
