"""`ackproof plan`: from a scenario to the schedules that lose, or come close to losing, records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from ackproof.cli.main import app
from ackproof.errors import ScenarioError
from ackproof.planning.compiler import Phase
from ackproof.planning.outcome import as_foreseen as all_as_foreseen
from ackproof.planning.outcome import hold
from ackproof.planning.question import question
from ackproof.runs import directory as runs
from ackproof.scenario.loader import load
from ackproof_model.adversary import Budgets
from ackproof_spark import tables
from ackproof_spark.tables import LOCATION

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
    result = CliRunner().invoke(app, ["plan", str(path), "--out", str(out), "--json", *options])
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    return document


def faults(path: str) -> list[dict[str, Any]]:
    (configured,) = load(Path(path))
    return [
        {"fault": one.name, **one.model_dump(mode="json", exclude_defaults=True)}
        for one in configured.scenario.faults
    ]


def test_the_limit_of_elr_is_compiled_into_triggers_on_state(tmp_path: Path) -> None:
    found = planned(tmp_path, *B7)
    assert (found["loss"], found["steps"]) == ("possible", 15)
    loss, clean = found["scenarios"]
    assert faults(loss["file"]) == [
        {"fault": "none", "id": "acked-0", "when": ["1000 more sent", "200 more acked"]},
        {
            "fault": "partition",
            "id": "step-1",
            "target": [3],
            "listener": "INTERNAL",
        },
        {
            "fault": "none",
            "id": "rest-1",
            "when": ["leader of orders-0 == 1", "isr of orders-0 is {1, 2}"],
        },
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
        {
            "fault": "none",
            "id": "rest-5",
            "when": ["leader of orders-0 == 1", "isr of orders-0 is {1, 2}"],
        },
        {"fault": "none", "id": "acked-5", "when": ["1000 more sent", "200 more acked"]},
    ]
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


def test_replicas_are_the_brokers_of_the_assignment(tmp_path: Path) -> None:
    topics = {"orders": {**SCENARIO["topics"]["orders"], "assignment": [[3, 1, 2]]}}
    del topics["orders"]["partitions"]
    found = planned(tmp_path, *B7, topics=topics)
    hit = [one["target"] for one in faults(found["scenarios"][0]["file"]) if "target" in one]
    assert hit == [[2], [1], [3]]


def test_with_one_ack_the_leader_is_killed_before_the_others_have_its_records(
    tmp_path: Path,
) -> None:
    settings = {"acks": 1, "enable.idempotence": False}
    found = planned(tmp_path, workload={**SCENARIO["workload"], "settings": settings})
    (loss,) = found["scenarios"]  # a clean stop would lose as much: there is no control
    kinds = [one["fault"] for one in faults(loss["file"])]
    assert kinds == ["none", "isolate_replication", "none", "kill", "none", "none"]
    # The cut must not last until the followers have lagged.
    waits = [one["when"] for one in faults(loss["file"]) if one.get("id", "").startswith("acked")]
    assert [when[0] for when in waits] == ["1000 more sent", "200 more sent", "1000 more sent"]


def test_with_zookeeper_no_follower_is_made_to_lag(tmp_path: Path) -> None:
    found = planned(tmp_path, kafka="2.6.2", cluster={})
    assert "shrinks" not in found["bounds"]
    made = faults(found["scenarios"][0]["file"])
    assert [one["fault"] for one in made if one["fault"] != "none"] == [
        "kill",
        "kill",
        "power_loss",
    ]
    # Without ELR it leads at once, so that no log need be read.
    assert "leader of orders-0 == none" not in made[-1]["when"]
    assert not any("log of broker" in text for one in made for text in one.get("when", ()))


def test_where_all_brokers_are_down_only_time_can_tell(tmp_path: Path) -> None:
    found = planned(tmp_path, "--kills", "2", "--shrinks", "0")
    (down,) = [one for one in faults(found["scenarios"][0]["file"]) if one["id"] == "rest-3"]
    assert down["when"] == ["after 9.4s"]  # 1.6 sessions of 4 s, and 3 s


def test_where_nothing_can_be_lost_there_is_a_suite_that_expects_so(tmp_path: Path) -> None:
    found = planned(tmp_path, "--power-losses", "0", "--kills", "1", "--shrinks", "1")
    assert found["loss"] == "impossible"
    assert len(found["scenarios"]) >= 2
    assert all("safe" in one["file"] for one in found["scenarios"])
    kinds = [set(one["kinds"]) for one in found["scenarios"]]
    assert all(own - set().union(*kinds[:number]) for number, own in enumerate(kinds))
    for one in found["scenarios"]:
        assert load(Path(one["file"]))[0].scenario.expect.loss == "none"
        assert {phase["fate"] for phase in one["phases"]} == {"kept"}


def test_a_search_that_ends_early_decides_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    result = CliRunner().invoke(app, ["plan", str(path), "--max-states", "100", "--json"])
    assert result.exit_code == 3
    (document,) = json.loads(result.stdout)
    assert document["loss"] == "unknown"
    assert "INCOMPLETE" in document["bounds"]
    assert document["scenarios"] == []


def test_a_search_that_is_kept_goes_on(tmp_path: Path) -> None:
    path, keep = written(tmp_path), tmp_path / "keep"
    early = ["plan", str(path), "--keep", str(keep), "--max-states", "100", "--json"]
    assert CliRunner().invoke(app, early).exit_code == 3
    levels = {one: one.stat().st_mtime_ns for one in keep.rglob("*.jsonl")}
    assert planned(tmp_path, *B7, "--keep", str(keep))["loss"] == "possible"
    assert levels
    assert all(one.stat().st_mtime_ns == at for one, at in levels.items())


def test_a_search_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    path, keep = written(tmp_path), tmp_path / "keep"
    keep.write_text("not a folder")
    with pytest.raises(ScenarioError, match="cannot be kept in"):
        CliRunner().invoke(app, ["plan", str(path), "--keep", str(keep)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cluster": {"controllers": 3, "combined": True}}, "cluster.combined"),
        ({"cluster": {"log_dirs": 2}}, "log_dirs"),
        ({"cluster": {"features": {"group.version": 0}}}, "cluster.features group.version"),
        ({"cluster": {"settings": {"broker.session.timeout.ms": 40000}}}, "noticed after 40s"),
        (
            {
                "workload": {
                    **SCENARIO["workload"],
                    "settings": {"acks": "all", "enable.idempotence": True},
                    "transactions": {"size": 10},
                }
            },
            "no transactions",
        ),
    ],
)
def test_what_the_model_does_not_know_is_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    scenario = load(written(tmp_path, **changes))[0].scenario
    with pytest.raises(ScenarioError, match=problem):
        question(scenario, Budgets())


def test_the_question_is_what_the_scenario_says(tmp_path: Path) -> None:
    scenario = load(
        written(
            tmp_path,
            cluster={
                "features": {"eligible.leader.replicas.version": 0},
                "settings": {"log.flush.interval.messages": 1},
            },
        )
    )[0].scenario
    asked = question(scenario, Budgets(kills=1))
    assert (asked.kafka_version, asked.acks, asked.replicas) == ("4.3.1", "all", 3)
    assert (asked.min_insync_replicas, asked.unclean_election) == (2, False)
    assert asked.flush_every_record
    assert not asked.policy.elr


def test_too_many_perturbations_are_refused_with_the_limit(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["plan", str(written(tmp_path)), "--in-all", "9"])
    assert result.exit_code == 2


START = datetime(2026, 1, 1, tzinfo=UTC)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with sends at seconds 1 to 9, each acked half a second later; those below 5 lost."""
    sends = [
        {
            "producer": 1,
            "sequence": number,
            "topic": "orders",
            "partition": 0,
            "outcome": "acked" if number != 9 else "unknown",
            "error": None,
            "offset": number,
            "sent_at": second(number),
            "resolved_at": second(number + 0.5),
        }
        for number in range(1, 10)
    ]
    lost = [
        {
            **{key: one[key] for key in ("producer", "sequence", "topic", "partition", "offset")},
            "sent_at": one["sent_at"],
            "resolved_at": one["resolved_at"],
            "anomaly": "lost",
            "window": None,
            "found": "nothing",
        }
        for one in sends[:4]
    ]
    windows = [
        {
            "window": number,
            "fault": "none",
            "target": "all",
            "nodes": [1],
            "parameters": json.dumps({"id": name}),
            "trigger": "at once",
            "injected_at": second(at),
            "verified_at": second(at),
            "healed_at": None,
            "recovered_at": None,
            "verified": True,
            "evidence": "",
        }
        for number, (name, at) in enumerate({"acked-0": 2.7, "rest-1": 4.2, "acked-1": 9.8}.items())
    ]
    for table, rows in (("ledger", sends), ("anomalies", lost), ("fault_windows", windows)):
        path = tmp_path / LOCATION[table]
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.suffix:
            path.mkdir()
            path /= "part-0.parquet"
        runs.write_table(path, getattr(tables, table.upper()), "run", rows)
    return tmp_path


@pytest.mark.parametrize(
    ("after", "until", "fate", "acked", "lost", "as_foreseen"),
    [
        ("", "acked-0", "lost", 2, 2, True),
        ("", "acked-0", "kept", 2, 2, False),
        ("rest-1", "acked-1", "kept", 4, 0, True),  # of 5 to 8: 9 is unknown
        ("rest-1", "acked-1", "lost", 4, 0, False),
        ("", "acked-1", "lost", 8, 4, False),
        ("", "never-began", "lost", 0, 0, False),
        ("never-began", "acked-1", "kept", 0, 0, False),
    ],
)
def test_a_phase_holds_if_all_or_none_of_its_records_are_lost(  # noqa: PLR0917 -- a table
    run_dir: Path, after: str, until: str, fate: str, acked: int, lost: int, as_foreseen: bool
) -> None:
    (found,) = hold(run_dir, [Phase(after=after, until=until, fate=fate)])
    assert (found.acked, found.lost) == (acked, lost)
    assert all_as_foreseen([found]) == as_foreseen


def test_a_phase_without_records_says_nothing_beside_one_that_has_some(run_dir: Path) -> None:
    lost = Phase(after="", until="acked-0", fate="lost")
    empty = Phase(after="rest-1", until="rest-1", fate="lost")
    kept = Phase(after="rest-1", until="acked-1", fate="kept")
    nothing = Phase(after="never-began", until="acked-1", fate="kept")
    held = hold(run_dir, [lost, empty, kept])
    assert [one.acked for one in held] == [2, 0, 4]
    assert all_as_foreseen(held)
    assert not all_as_foreseen(hold(run_dir, [lost, nothing]))
