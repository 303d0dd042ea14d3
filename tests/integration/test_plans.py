"""Planned schedules lose the predicted records on real clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ackproof.kafka_versions import DEFAULT_KAFKA
from integration.command import ackproof, printed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

KRAFT = {
    "replica.lag.time.max.ms": 5000,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}
ZOOKEEPER = {"replica.lag.time.max.ms": 9000, "zookeeper.session.timeout.ms": 6000}


def planned(
    tmp_path: Path,
    *options: str,
    kafka: str = DEFAULT_KAFKA,
    acks: str | int = "all",
    min_insync_replicas: int = 2,
    unclean: bool = False,
) -> tuple[dict[str, Any], int]:
    """Run `plan --run --json`; return its output and exit code."""
    path = tmp_path / "orders.yaml"
    document = {
        "version": 1,
        "name": "orders",
        "kafka": kafka,
        "cluster": {"settings": ZOOKEEPER if kafka.startswith("2.") else KRAFT},
        "topics": {
            "orders": {
                "settings": {
                    "min.insync.replicas": min_insync_replicas,
                    "unclean.leader.election.enable": unclean,
                }
            }
        },
        "workload": {
            "topic": "orders",
            "rate": "500/s",
            "settings": {
                "acks": acks,
                "enable.idempotence": False,
                "delivery.timeout.ms": 20000,
            },
        },
    }
    with path.open("w") as file:
        YAML().dump(document, file)
    result = ackproof(
        "plan",
        path,
        *("--run", "--json", "--to", tmp_path / "plans", "--out", tmp_path / "runs"),
        *options,
    )
    assert result.stdout, result.stderr
    (found,) = printed(result)
    return found, result.returncode


def check(found: dict[str, Any], returncode: int, *, clean: bool) -> None:
    """Require that in every run the records of each phase were lost or kept as predicted."""
    summary = [(one["file"], one["reason"], one["phases"]) for one in found["scenarios"]]
    assert returncode == 0, summary
    assert found["loss"] == "possible"
    loss, *control = found["scenarios"]
    assert loss["lost"] > 0
    assert any(one["fate"] == "lost" and one["acked"] for one in loss["phases"])
    assert len(control) == clean
    for one in control:
        assert one["lost"] == 0
        assert one["acked"] > 0


def test_the_limit_of_elr_loses_the_predicted_records_and_nothing_with_clean_stops(
    tmp_path: Path,
) -> None:
    found, code = planned(tmp_path, "--kills", "1", "--shrinks", "1")
    assert found["steps"] == 15
    check(found, code, clean=True)


@pytest.mark.parametrize("kafka", ["2.6.2", "3.9.1", "4.1.2", DEFAULT_KAFKA])
def test_with_acks_1_a_killed_leader_loses_unfetched_records(tmp_path: Path, kafka: str) -> None:
    found, code = planned(tmp_path, kafka=kafka, acks=1)
    assert found["steps"] == 4
    check(found, code, clean=False)


@pytest.mark.parametrize("kafka", ["3.9.1", DEFAULT_KAFKA])
def test_with_acks_1_a_deposed_leader_acks_records_that_are_lost(
    tmp_path: Path, kafka: str
) -> None:
    options = ("--kills", "0", "--power-losses", "0", "--shrinks", "0", "--fencings", "1")
    found, code = planned(tmp_path, *options, kafka=kafka, acks=1)
    assert found["steps"] == 3
    check(found, code, clean=False)


@pytest.mark.parametrize("kafka", ["3.9.1", DEFAULT_KAFKA])
def test_an_unclean_election_elects_the_first_broker_that_returns(
    tmp_path: Path, kafka: str
) -> None:
    options = ("--kills", "2", "--power-losses", "0", "--shrinks", "1")
    found, code = planned(tmp_path, *options, kafka=kafka, unclean=True)
    assert found["steps"] == 12
    check(found, code, clean=False)


@pytest.mark.parametrize("kafka", ["3.9.1", DEFAULT_KAFKA])
def test_power_loss_of_the_only_isr_member_loses_its_records(tmp_path: Path, kafka: str) -> None:
    options = ("--kills", "0", "--shrinks", "2")
    found, code = planned(tmp_path, *options, kafka=kafka, min_insync_replicas=1)
    assert found["steps"] == 13
    check(found, code, clean=True)


def test_the_last_replica_loses_records_that_the_others_had(tmp_path: Path) -> None:
    found, code = planned(tmp_path, "--kills", "0", "--shrinks", "2", kafka="3.9.1")
    assert found["steps"] == 14
    check(found, code, clean=True)


@pytest.mark.parametrize(("least", "steps"), [(1, 12), (2, 14)])
def test_with_zookeeper_the_last_leader_loses_its_records(
    tmp_path: Path, least: int, steps: int
) -> None:
    found, code = planned(tmp_path, kafka="2.6.2", min_insync_replicas=least)
    assert found["steps"] == steps
    check(found, code, clean=True)


def test_with_zookeeper_an_unclean_election_elects_the_first_broker_that_returns(
    tmp_path: Path,
) -> None:
    options = ("--kills", "3", "--power-losses", "0")
    found, code = planned(tmp_path, *options, kafka="2.6.2", unclean=True)
    check(found, code, clean=False)


@pytest.mark.parametrize("kafka", ["4.1.2", DEFAULT_KAFKA])
def test_the_limit_of_elr_is_reached_with_kills_alone(tmp_path: Path, kafka: str) -> None:
    found, code = planned(tmp_path, "--kills", "2", "--shrinks", "0", kafka=kafka)
    assert found["steps"] == 15
    check(found, code, clean=True)


def test_the_worst_schedules_lose_nothing_where_the_model_excludes_loss(tmp_path: Path) -> None:
    found, code = planned(
        tmp_path, "--kills", "1", "--power-losses", "1", "--shrinks", "1", "--in-all", "2"
    )
    assert found["loss"] == "impossible"
    assert len(found["scenarios"]) >= 2
    assert [one["lost"] for one in found["scenarios"]] == [0] * len(found["scenarios"])
    assert code == 0, [(one["file"], one["reason"], one["phases"]) for one in found["scenarios"]]
