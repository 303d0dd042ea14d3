"""Clients that the scenario or a table tells of have left their files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ackproof.judgement.client_files import contradictions
from ackproof.runs.directory import RunRecord
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS
from small_scenario import scenario

RECORD = RunRecord(
    run_id="run-1", image="i", pid=1, started_at=datetime(2026, 1, 1, tzinfo=UTC), sealed=True
)
PROBE = ["probe-0.json", "probe-0.progress", "probe-orders-0.progress"]


def of(*clients: str) -> list[str]:
    return [f"{client}.{suffix}" for client in clients for suffix in ("json", "progress")]


def leave(run_dir: Path, *names: str) -> Path:
    (run_dir / "clients").mkdir()
    for name in names:
        (run_dir / "clients" / name).write_bytes(b"")
    return run_dir


def said(run_dir: Path, given: Scenario, **record: Any) -> list[str]:
    return list(contradictions(run_dir, given, RECORD.model_copy(update=record)))


def lacking(*clients: str) -> list[str]:
    files = ("specification", "progress page")
    return [f"the {file} of {client} is missing" for client in clients for file in files]


GROUP = {"members": 2, "commit": "after"}


@pytest.mark.parametrize(
    ("workload", "clients"),
    [
        ({}, ["producer-0"]),
        ({"producers": 2}, ["producer-0", "producer-1", "producer-2"]),  # a successor
        ({"consumers": {"a": GROUP}}, ["producer-0", "consumer-0", "consumer-1"]),
        (
            {"consumers": {"a": {**GROUP, "crash_after": 5}}},
            ["producer-0", "consumer-0", "consumer-1", "consumer-2"],
        ),
        ({"transactions": {"size": 5, "crash_in": 2}}, ["producer-0", "producer-1"]),
        ({"transactions": {"size": 5, "zombie_in": 2}}, ["producer-0", "producer-1"]),
    ],
)
def test_each_client_has_left_its_files(
    tmp_path: Path, workload: dict[str, Any], clients: list[str]
) -> None:
    given = scenario(**workload)
    assert said(tmp_path, given) == []  # a run of an older ackproof
    leave(tmp_path, *of(*clients))
    assert said(tmp_path, given) == []
    for file in of(clients[-1]):
        (tmp_path / "clients" / file).unlink()
    left = len(clients) == 3 and "producers" in workload  # nobody tells of this successor
    wanted = [] if left or len(clients) == 1 else lacking(clients[-1])
    assert said(tmp_path, given) == wanted
    assert said(tmp_path, given, troubles=["broker 1 never started"]) == []
    assert said(tmp_path, given, sealed=False) == []


@pytest.mark.parametrize(
    ("left", "named"),
    [
        (of("producer-1"), lacking("producer-0")),
        (of("producer-0", "producer-1")[1:], lacking("producer-0")[:1]),
        (of("producer-0", "producer-1")[:3], lacking("producer-1")[1:]),
        (of("producer-0", "producer-2"), ["the producers are not numbered from 0 without a gap"]),
        ([*of("producer-0"), "in-force-producer-1.json"], lacking("producer-1")),
        ([*of("producer-0"), "consumer-0.progress"], lacking("consumer-0")[:1]),
        ([*of("producer-0"), "ends.json", "producer-7.log"], []),
    ],
)
def test_clients_that_are_partly_gone_are_named(
    tmp_path: Path, left: list[str], named: list[str]
) -> None:
    assert said(leave(tmp_path, *left), scenario()) == named


@pytest.mark.parametrize(
    ("table", "client"),
    [
        *(("ledger", "producer-1"), ("transactions", "producer-1")),
        *(("reads", "consumer-0"), ("consumer_events", "consumer-0"), ("effects", "consumer-0")),
    ],
)
def test_a_client_that_only_a_table_tells_of_is_named(
    tmp_path: Path, table: str, client: str
) -> None:
    leave(tmp_path, *of("producer-0"))
    file = tmp_path / LOCATION[table] / f"{client}.parquet"
    file.parent.mkdir()
    file.touch()
    assert said(tmp_path, scenario()) == lacking(client)


def test_the_probe_has_left_its_pages(tmp_path: Path) -> None:
    given = scenario(probe=True)
    leave(tmp_path, *of("producer-0"), *PROBE)
    file = tmp_path / LOCATION["ledger"] / f"producer-{PROBE_PRODUCERS}.parquet"
    file.parent.mkdir()
    file.touch()
    assert said(tmp_path, given) == []
    for name in PROBE:
        (tmp_path / "clients" / name).unlink()
    last = "the progress page of probe-orders-0 is missing"
    assert said(tmp_path, given) == [*lacking("probe-0"), last]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("stopped", ["none", "some", "any"])
def test_nothing_tells_whether_a_producer_stopped_that_left_no_file_in_force(
    tmp_path: Path, stopped: str, sealed: bool
) -> None:
    given = scenario(expect={"stopped": stopped}, may_stop_for=["_FATAL"], producers=2)
    leave(tmp_path, *of("producer-0", "producer-1"), "in-force-producer-0.json")
    wanted = [] if stopped == "any" else ["nothing tells whether producer-1 stopped"]
    assert said(tmp_path, given, sealed=sealed) == wanted
    (tmp_path / "clients" / "in-force-producer-1.json").touch()
    assert said(tmp_path, given, sealed=sealed) == []
