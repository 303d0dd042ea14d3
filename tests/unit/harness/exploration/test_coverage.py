"""The coverage of a configuration by stored runs, without and with runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import ScenarioError
from ackproof.exploration import coverage
from ackproof.exploration.coverage import covered
from ackproof.exploration.document import document, lines
from ackproof.exploration.passed import Passed, passed
from ackproof.scenario.loader import dump, validate
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import Budgets
from ackproof_model.coverage import Pair, Reached, Shape
from command_line import captured, invoked

METADATA = Path(__file__).parents[1] / "observation" / "metadata_4.3.1.txt"
ONE_KILL = Budgets(kills=1)


def scenario(**settings: Any) -> Scenario:
    return validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": "4.3.1",
            "topics": {
                "orders": {"assignment": [[2, 3, 1]], "settings": {"min.insync.replicas": 2}}
            },
            "workload": {
                "topic": "orders",
                "settings": {"acks": "all", "enable.idempotence": True, **settings},
            },
            "expect": {"loss": "any"},
        }
    )


def reached(**settings: Any) -> Reached:
    return coverage.reached(scenario(**settings), ONE_KILL, max_states=10_000)


def run_dir(folder: Path, *, metadata: str = "") -> Path:
    folder.mkdir()
    dump(scenario(), folder / "scenario.yaml")
    (folder / "metadata.log").write_text(metadata or METADATA.read_text(encoding="utf-8"))
    return folder


def test_without_a_run_every_pair_is_missing() -> None:
    found = covered(reached(), [])
    assert (len(found.missing), len(found.schedules)) == (40, 37)
    made = document(scenario(), found)
    assert (made["certain"], made["share"], made["pairs"]) == (0, 0.0, 40)
    assert made["budget"] == "up to 1 SIGKILL, together at most 1"
    [fenced] = [
        one for one in made["missing"] if one["step"] == "fence" and one["after"]["leader"] == 3
    ]
    full = {"leader": 2, "isr": [2, 3, 1], "elr": [], "last_known_leader": None}
    assert fenced["before"] == full
    assert fenced["schedule"] == ["kill 2"]
    text = "\n".join(lines(scenario(), found))
    assert "0 runs count: 0 pairs passed for certain (0%), 0 more perhaps" in text
    assert "40 pairs are missing; a schedule leads to 37 of them" in text
    assert "and 20 more; --json lists all" in text


def test_pairs_of_all_runs_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Shape(0, (0, 1, 2))
    killed, acked = Pair("kill", full, full), Pair("ack", full, full)
    results = {
        "first": Passed(certain=frozenset({killed}), possible=frozenset({acked})),
        "second": Passed(certain=frozenset({acked})),
        "third": Passed(why_not="it is not explained"),
    }
    monkeypatch.setattr(coverage, "passed", lambda folder, _: results[folder.name])
    found = covered(reached(), [run_dir(tmp_path / name) for name in results])
    assert (found.certain, found.possible) == ({killed, acked}, set())
    assert found.counted == ("first", "second")
    assert found.left_out == {"third": "it is not explained"}
    assert len(found.missing) == 38
    assert not found.schedules.keys() & found.certain


def test_a_run_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    run_dir(tmp_path / "other")
    found = covered(reached(acks=1, **{"enable.idempotence": False}), [tmp_path / "other"])
    assert found.left_out == {"other": "it has another configuration"}


def test_a_run_without_the_logs_of_replicas_does_not_count(tmp_path: Path) -> None:
    found = passed(run_dir(tmp_path / "run"), reached())
    assert found.why_not == "orders-0: the replicas' disks were not read"


def test_an_unexplained_run_does_not_count(tmp_path: Path) -> None:
    text = METADATA.read_text(encoding="utf-8")
    wrong = text.replace('"isr":[2,3],"leader":2', '"isr":[2,3],"leader":3')
    found = passed(run_dir(tmp_path / "run", metadata=wrong), reached())
    assert found.why_not.startswith("the model does not explain metadata offset ")
    assert found == Passed(why_not=found.why_not)


def test_a_budget_of_nothing_and_one_too_large_are_refused() -> None:
    with pytest.raises(ScenarioError, match="allows no perturbation"):
        coverage.reached(scenario(), Budgets(), max_states=10)
    with pytest.raises(ScenarioError, match="more than 10 states, the limit of --max-states"):
        coverage.reached(scenario(), ONE_KILL, max_states=10)


def test_the_command_shows_each_question_once(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    dump(scenario(), path)
    path.write_text(path.read_text() + "matrix: {one: {seed: 1}, two: {seed: 2}}\n")
    options = ("--kills", "1", "--power-losses", "0", "--shrinks", "0", "--out", tmp_path)
    result = invoked("explore", path, *options, "--json")
    assert result.exit_code == 0, result.output
    [made] = json.loads(result.stdout)
    assert (made["pairs"], made["runs"]) == (40, [])
    assert captured("explore", path, "--kills", "9").returncode == 2
