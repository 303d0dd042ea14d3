"""`ackproof plan`: from a scenario to the schedules that lose, or come close to losing, records."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from ackproof.cli import options
from ackproof.errors import ScenarioError
from ackproof.execution import runner
from ackproof.exploration.guarantee import broken
from ackproof.planning.search import SearchResult, search
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import Budgets
from command_line import captured, invoked
from support.run_directories import RunDirectory, at

SCENARIO: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": "4.3.1",
    "cluster": {
        "settings": {"replica.lag.time.max.ms": 6000, "broker.session.timeout.ms": 4000},
    },
    "topics": {
        "orders": {
            "partitions": 4,
            "settings": {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
        }
    },
    "workload": {
        "topic": "orders",
        "rate": "500/s",
        "settings": {"acks": "all", "enable.idempotence": False},
    },
    "faults": [{"fault": "kill", "target": "leader of orders-0", "when": "10 acked"}],
}
B7 = ("--kills", "1", "--shrinks", "1")


def written(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "orders.yaml"
    with path.open("w") as file:
        YAML().dump({**SCENARIO, **changes}, file)
    return path


def planned(tmp_path: Path, *options: str, **changes: Any) -> dict[str, Any]:
    path, out = written(tmp_path, **changes), tmp_path / "plans"
    result = invoked("plan", path, "--to", out, "--json", *options)
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    return document


def test_plans_of_a_matrix_have_legal_names(tmp_path: Path) -> None:
    answer = planned(tmp_path, *B7, matrix={"acks=all, Kafka 4": {"seed": 2}})
    assert {load(Path(one["file"]))[0].scenario.name for one in answer["scenarios"]} == {
        Path(one["file"]).stem for one in answer["scenarios"]
    }
    assert all("orders-acks-all--kafka-4" in one["file"] for one in answer["scenarios"])


def faults(path: str) -> list[dict[str, Any]]:
    (configured,) = load(Path(path))
    return [
        {"fault": one.name, **one.model_dump(mode="json", exclude_defaults=True)}
        for one in configured.scenario.faults
    ]


def test_the_limit_of_elr_is_compiled_into_triggers_on_state(tmp_path: Path) -> None:
    answer = planned(tmp_path, *B7)
    assert (answer["loss"], answer["steps"]) == ("possible", 15)
    loss, clean = answer["scenarios"]
    both = ["leader of orders-0 == 1", "isr of orders-0 is {1, 2}"]
    assert faults(loss["file"]) == [
        {"fault": "none", "id": "acked-0", "when": ["1000 more sent", "200 more acked"]},
        {"fault": "partition", "id": "step-1", "target": [3], "listener": "INTERNAL"},
        {"fault": "none", "id": "rest-1", "when": both},
        {"fault": "none", "id": "acked-1", "when": ["1000 more sent", "200 more acked"]},
        {"fault": "kill", "id": "step-2", "target": [2], "heal_when": ["rest-3 began"]},
        {
            "fault": "none",
            "id": "rest-2",
            "when": ["leader of orders-0 == 1", "isr of orders-0 is {1}"],
        },
        {"fault": "power_loss", "id": "step-3", "target": [1], "heal_when": ["rest-4 began"]},
        {
            "fault": "none",
            "id": "rest-3",
            "when": ["leader of orders-0 == none", "isr of orders-0 == 0"],
        },
        {"fault": "none", "id": "rest-4", "when": ["log of broker 2 says 'Kafka Server started'"]},
        {"fault": "none", "id": "rest-5", "when": both},
        {"fault": "none", "id": "acked-5", "when": ["1000 more sent", "200 more acked"]},
    ]
    promises = [one["broken_promise"] for one in (loss, clean)]
    assert promises == ["only 1 of 3 brokers lost the end of a log", None]
    assert loss["phases"] == [
        {"after": "", "until": "acked-0", "fate": "lost"},
        {"after": "rest-1", "until": "acked-1", "fate": "lost"},
        {"after": "rest-5", "until": "acked-5", "fate": "kept"},
    ]
    assert [one["fault"] for one in faults(clean["file"]) if one["fault"] != "none"] == [
        "partition",
        "restart",
        "restart",
    ]
    assert {phase["fate"] for phase in clean["phases"]} == {"kept"}
    scenarios = [load(Path(one["file"]))[0].scenario for one in (loss, clean)]
    assert [one.expect.loss for one in scenarios] == ["some", "none"]
    assert {one.kafka for one in scenarios} == {"4.3.1"}
    assert all("\nkafka: 4.3.1\n" in Path(one["file"]).read_text() for one in (loss, clean))
    assert [one.topic.assignment for one in scenarios] == [[[1, 2, 3]]] * 2


def test_the_page_plan_and_explore_say_the_same_of_what_kafka_promises(tmp_path: Path) -> None:
    """Eligible leader replicas are to survive the loss that the page shows."""
    page = (Path(__file__).parents[4] / "docs/how-to/plan.md").read_text(encoding="utf-8")
    result = invoked("plan", written(tmp_path), "--to", tmp_path / "plans", *B7)
    loss, _ = result.stdout.split("orders-clean.yaml")
    assert "Broker 1 is started" in loss
    story = [line for line in loss.splitlines() if line.startswith("  ") and "within" not in line]
    assert [line for line in story if line not in page] == []
    [said] = re.findall(r"Kafka promises to keep these records: (.*)\.", loss)
    scenario, limits = (
        load(tmp_path / "orders.yaml")[0].scenario,
        Budgets(kills=1, power_losses=1, shrinks=1),
    )
    plan = search(scenario, limits, suite=1, max_states=100_000).loss
    assert plan is not None
    verdict: Any = SimpleNamespace(observed={"lost": 1}, predicted={"lost": "possible"}, causes=())
    [found] = broken(plan, verdict, plan.pairs)
    assert f"although {said} (" in found.explanation


def test_replicas_are_the_brokers_of_the_assignment(tmp_path: Path) -> None:
    topics = {"orders": {**SCENARIO["topics"]["orders"], "assignment": [[3, 1, 2]]}}
    del topics["orders"]["partitions"]
    answer = planned(tmp_path, *B7, topics=topics)
    hit = [one["target"] for one in faults(answer["scenarios"][0]["file"]) if "target" in one]
    assert hit == [[2], [1], [3]]


def test_with_acks_1_the_leader_is_killed_before_followers_fetch_its_records(
    tmp_path: Path,
) -> None:
    settings = {"acks": 1, "enable.idempotence": False}
    answer = planned(tmp_path, workload={**SCENARIO["workload"], "settings": settings})
    (loss,) = answer["scenarios"]  # a clean stop would lose as much: there is no control
    assert loss["broken_promise"] is None
    kinds = [one["fault"] for one in faults(loss["file"])]
    assert kinds == ["none", "isolate_replication", "none", "kill", "none", "none"]
    # The cut must not last until the followers have lagged.
    waits = [one["when"] for one in faults(loss["file"]) if one.get("id", "").startswith("acked")]
    assert [when[0] for when in waits] == ["1000 more sent", "200 more sent", "1000 more sent"]


def test_with_zookeeper_no_follower_is_made_to_lag(tmp_path: Path) -> None:
    answer = planned(tmp_path, kafka="2.6.2", cluster={})
    assert "shrinks" not in answer["bounds"]
    steps = faults(answer["scenarios"][0]["file"])
    assert [one["fault"] for one in steps if one["fault"] != "none"] == [
        "kill",
        "kill",
        "power_loss",
    ]
    # Without ELR it leads at once, so that no log need be read.
    assert "leader of orders-0 == none" not in steps[-1]["when"]
    assert not any("log of broker" in text for one in steps for text in one.get("when", ()))


def test_with_all_brokers_down_the_schedule_waits_for_time(tmp_path: Path) -> None:
    answer = planned(tmp_path, "--kills", "2", "--shrinks", "0")
    (down,) = [one for one in faults(answer["scenarios"][0]["file"]) if one["id"] == "rest-3"]
    assert down["when"] == ["after 9.4s"]  # 1.6 sessions of 4 s, and 3 s


def test_without_a_possible_loss_a_suite_expects_none(tmp_path: Path) -> None:
    answer = planned(tmp_path, "--power-losses", "0", "--kills", "1", "--shrinks", "1")
    assert answer["loss"] == "impossible"
    assert len(answer["scenarios"]) >= 2
    assert all("safe" in one["file"] for one in answer["scenarios"])
    kinds = [set(one["kinds"]) for one in answer["scenarios"]]
    assert all(own - set().union(*kinds[:number]) for number, own in enumerate(kinds))
    for one in answer["scenarios"]:
        assert load(Path(one["file"]))[0].scenario.expect.loss == "none"
        assert {phase["fate"] for phase in one["phases"]} == {"kept"}


def test_a_search_that_ends_early_is_continued(tmp_path: Path) -> None:
    """It decides nothing, and is continued where it was stored."""
    path, keep = written(tmp_path), tmp_path / "keep"
    result = invoked("plan", path, "--checkpoints", keep, "--max-states", "100", "--json")
    assert result.exit_code == 3
    (document,) = json.loads(result.stdout)
    assert document["loss"] == "unknown"
    assert "INCOMPLETE" in document["bounds"]
    assert document["scenarios"] == []
    levels = {one: one.stat().st_mtime_ns for one in keep.rglob("*.jsonl")}
    assert planned(tmp_path, *B7, "--checkpoints", str(keep))["loss"] == "possible"
    assert levels
    assert all(one.stat().st_mtime_ns == at for one, at in levels.items())


def test_a_search_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    path, keep = written(tmp_path), tmp_path / "keep"
    keep.write_text("not a folder")
    with pytest.raises(ScenarioError, match=r"--checkpoints .*: the search cannot be stored there"):
        invoked("plan", path, "--checkpoints", keep)


def test_too_many_perturbations_are_refused_with_the_limit(tmp_path: Path) -> None:
    assert captured("plan", written(tmp_path), "--in-all", "9").returncode == 2


#: The seconds of each fault of the planned loss of B10 and of its control, and of one send in each
#: phase; the first may lose its record, as a race decides.
_WINDOWS = {"acked-0": 2, "step-1": 3, "acked-1": 5}
_SENDS = (1, 4)


def _ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: dict[str, Sequence[int]]) -> None:
    """Let each scenario run without brokers, and lose the records that were sent at `lost`."""

    def run(configured: Configured) -> tuple[Path, Any]:
        scenario = configured.scenario
        path = tmp_path / scenario.name
        path.mkdir()
        sends = [
            {
                "sequence": second,
                "outcome": "acked",
                "sent_at": at(second),
                "resolved_at": at(second + 0.5),
            }
            for second in _SENDS
        ]
        away = [
            {"anomaly": "lost", **{key: send[key] for key in ("sent_at", "resolved_at")}}
            for send in sends
            if send["sequence"] in lost[scenario.name]
        ]
        windows = [
            {
                "parameters": json.dumps({"id": name}),
                "injected_at": at(when),
                "verified_at": at(when),
            }
            for name, when in _WINDOWS.items()
        ]
        stored = RunDirectory(path=path).write("ledger", sends).write("anomalies", away)
        stored.write("fault_windows", windows)
        observed = {"acked": len(sends), "lost": len(away)}
        met = scenario.expect.loss == "any" or bool(away) == (scenario.expect.loss == "some")
        word = "holds" if met else "violated"
        return path, SimpleNamespace(verdict=word, reason="", observed=observed)

    def run_suite(configurations: Sequence[Configured], **_: Any) -> list[tuple[Path, Any]]:
        return [run(one) for one in configurations]

    monkeypatch.setattr(runner, "run_suite", run_suite)
    monkeypatch.setattr(options, "engine", lambda _: None)


@pytest.fixture(scope="module")
def found() -> dict[str, SearchResult]:
    """What was found, by the question: the cases of a race ask the same one."""
    return {}


@pytest.fixture
def searched_once(found: dict[str, SearchResult], monkeypatch: pytest.MonkeyPatch) -> None:
    def once(scenario: Scenario, budgets: Budgets, **how: Any) -> SearchResult:
        question = f"{scenario.model_dump_json()} {budgets}"
        if question not in found:
            found[question] = search(scenario, budgets, **how)
        return found[question]

    monkeypatch.setattr("ackproof.planning.search.search", once)


@pytest.mark.usefixtures("searched_once")
@pytest.mark.parametrize(
    ("loss", "clean", "code"),
    [((1,), (), 0), ((), (), 3), ((), (4,), 1)],
    ids=["the race is lost", "it is not", "the control loses a record"],
)
def test_a_race_that_loses_nothing_is_inconclusive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loss: tuple[int, ...],
    clean: tuple[int, ...],
    code: int,
) -> None:
    """B10: whether the followers have heard that the last record is committed is a race."""
    _ran(monkeypatch, tmp_path, {"orders-loss": loss, "orders-clean": clean})
    path = written(tmp_path, kafka="0.10.2.2", cluster={})
    result = invoked("plan", path, "--to", tmp_path / "plans", "--run", "--json")
    (document,) = json.loads(result.stdout)
    planned, control = document["scenarios"]
    assert [phase["fate"] for phase in planned["phases"]] == ["some"]
    assert load(Path(planned["file"]))[0].scenario.expect.loss == "any"
    assert control["as_foreseen"] is (not clean)
    assert result.exit_code == code
