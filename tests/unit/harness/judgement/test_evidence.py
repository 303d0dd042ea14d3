"""Evidence that is missing or contradicts the scenario makes a run inconclusive."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from ackproof.clients.shared_page import State
from ackproof.judgement.evidence import missing_evidence
from ackproof.runs import directory as runs
from ackproof.runs.recovery import seal
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.loader import load
from ackproof_spark import tables
from ackproof_spark.tables import LOCATION, PARTITION_ENDS
from spark_histories import RUN_ID, parse
from stored_runs import TOPIC, store

START = datetime(2026, 1, 1, tzinfo=UTC)
OBSERVED = {"sent": 10, "acked": 10, "failed": 0, "unknown": 0}
KILL = {"fault": "kill", "target": "leader of orders-0", "when": "3 acked", "heal_after": "1s"}


def window(fault: str = "kill", **changes: Any) -> FaultReport:
    times = {"injected_at": 1, "verified_at": 2, "healed_at": 3, "recovered_at": 4}
    row = {
        "window": 0,
        "fault": fault,
        "target": "leader of orders-0",
        "nodes": [1],
        "parameters": "{}",
        "trigger": "",
        "verified": True,
        "evidence": "",
        **{name: START + timedelta(seconds=second) for name, second in times.items()},
        **changes,
    }
    return FaultReport.model_validate(
        {key: value for key, value in row.items() if key in FaultReport.model_fields}
    )


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    log = [f"0@{n}: 0/{n}" for n in range(10)]
    return store(tmp_path / "run", parse({"log": log, "ends": ["0: 0-10"]}))


def change_scenario(run_dir: Path, **changes: Any) -> None:
    path = run_dir / "scenario.yaml"
    document = YAML(typ="safe").load(path)
    workload = {**document["workload"], **changes.pop("workload", {})}
    YAML(typ="safe").dump({**document, **changes, "workload": workload}, path)


def reasons(
    run_dir: Path,
    *,
    faults: tuple[FaultReport, ...] = (),
    observed: dict[str, int] = OBSERVED,
    unacked: tuple[str, ...] = (),
) -> list[str]:
    return missing_evidence(
        run_dir,
        load(run_dir / "scenario.yaml")[0].scenario,
        runs.read_record(run_dir),
        faults=faults,
        observed=observed,
        unacked_partitions=unacked,
    )


def test_complete_evidence_gives_no_reason(run_dir: Path) -> None:
    assert reasons(run_dir) == []
    change_scenario(run_dir, faults=[KILL])
    assert reasons(run_dir, faults=(window(),)) == []


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ((), "the scenario injects kill once, and fault_windows records it 0 times"),
        ((window("pause"),), "fault_windows records pause, which the scenario does not inject"),
        ((window(verified_at=None),), "is called verified without a time"),
        ((window(healed_at=START),), "the times of kill of leader of orders-0 are not in order"),
    ],
)
def test_a_fault_that_left_no_proof_is_named(
    run_dir: Path, faults: tuple[FaultReport, ...], said: str
) -> None:
    change_scenario(run_dir, faults=[KILL])
    assert said in "; ".join(reasons(run_dir, faults=faults))


def test_a_loop_of_faults_that_left_none_is_named(run_dir: Path) -> None:
    change_scenario(run_dir, faults=[{"sequence": [KILL], "repeat": 2}])
    assert reasons(run_dir, faults=(window(), window())) == []
    assert reasons(run_dir) == ["the scenario injects faults, and fault_windows records none"]


def test_a_missing_manifest_of_a_sealed_run_is_named(run_dir: Path) -> None:
    seal(run_dir, runs.read_record(run_dir).model_copy(update={"readers": ["kafka"]}))
    assert reasons(run_dir) == []
    (run_dir / "manifest.json").unlink()
    assert "manifest.json is missing" in reasons(run_dir)[0]


def test_a_sealed_run_whose_final_log_nobody_read_is_named(run_dir: Path) -> None:
    record = runs.read_record(run_dir)
    seal(run_dir, record)
    assert reasons(run_dir) == ["run.json names no reader of the final log"]
    seal(run_dir, record.model_copy(update={"readers": ["kafka"]}))
    assert reasons(run_dir) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "partition_ends has 0 rows of orders-0 instead of one"),
        ([{}, {}], "partition_ends has 2 rows of orders-0 instead of one"),
        ([{}, {"partition": 7}], "partition_ends has orders-7, which the scenario does not write"),
        ([{"end_offset": 5}], "orders-0 ends at offset 5, and its final log has offset 9"),
        ([{"end_offset": -1}], "orders-0 ends at offset -1, and its final log has offset 9"),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_ends_that_contradict_the_final_log_are_named(
    run_dir: Path, rows: list[dict[str, Any]], said: str, statistics: bool
) -> None:
    end = {"topic": TOPIC, "partition": 0, "begin_offset": 0, "end_offset": 10, "complete": True}
    ends = [{**end, "reason": None, **row} for row in rows]
    runs.write_table(run_dir / LOCATION["partition_ends"], PARTITION_ENDS, RUN_ID, ends)
    log = run_dir / LOCATION["final_log"] / "part-0.parquet"
    pq.write_table(pq.read_table(log), log, write_statistics=statistics)
    assert said in "; ".join(reasons(run_dir))


def test_tables_that_the_clients_should_have_left_are_named(run_dir: Path) -> None:
    group = {"g": {"commit": "after"}}
    change_scenario(run_dir, workload={"consumers": group})
    assert reasons(run_dir) == [
        f"the scenario has consumers, and the table {table} is missing"
        for table in ("reads", "consumer_events", "effects")
    ]
    for table in ("reads", "consumer_events", "effects"):
        (run_dir / LOCATION[table]).mkdir()
        file = run_dir / LOCATION[table] / "consumer-0.parquet"
        runs.write_table(file, getattr(tables, table.upper()), RUN_ID, [])
    assert reasons(run_dir)[0] == "the scenario has consumers, and the table reads is empty"
    change_scenario(run_dir, workload={"consumers": {}, "transactions": {"size": 10}})
    (reason,) = reasons(run_dir)
    assert (
        reason == "the scenario has transactional producers, and the table transactions is missing"
    )


def test_what_a_client_counted_and_did_not_leave_is_named(run_dir: Path) -> None:
    change_scenario(run_dir, workload={"probe": True})
    (run_dir / "clients").mkdir()
    page = struct.pack("=5q", State.DONE, 5, 5, 0, 0).ljust(4096, b"\0")
    (run_dir / "clients" / "probe-0.progress").write_bytes(page)
    counted = "the probe counted 5 attempts to read, 5 of them answered, and recorded 0 and 0"
    assert reasons(run_dir) == [counted]


@pytest.mark.parametrize(
    ("changes", "unacked", "said"),
    [
        ({"acked": 0, "unknown": 10}, (), "nothing was acked, so nothing could be lost"),
        ({"acked": 9}, (), "1 sends have an outcome other than acked, failed, unknown"),
        ({}, ("orders-1",), "nothing was acked in orders-1"),
        ({"sent": 35_270, "acked": 1, "unknown": 35_269}, (), "only 1 of 35,270 sends were acked"),
        ({"gap": 2}, (), "replicas hold 2 batches that were not read"),
    ],
)
def test_what_the_counts_say_is_named(
    run_dir: Path, changes: dict[str, int], unacked: tuple[str, ...], said: str
) -> None:
    observed = OBSERVED | changes
    assert reasons(run_dir, observed=observed, unacked=unacked) == [said]


def test_divergence_that_is_expected_and_was_not_looked_for_is_named(run_dir: Path) -> None:
    change_scenario(run_dir, expect={"diverged": "some"})
    said = "diverged: some is expected, and the replicas' segments were not compared"
    assert reasons(run_dir) == [said]
    assert reasons(run_dir, observed={**OBSERVED, "diverged": 0}) == []


def _replicas(run_dir: Path, logs: list[int], batches: list[int]) -> None:
    """Write the tables of brokers 1 and 2, both in sync, as far as these lists name them."""
    place = {"topic": TOPIC, "partition": 0}
    state = {"at": START, "metadata_offset": 3, **place, "leader": 1, "leader_epoch": 0}
    lists = {"replicas": [1, 2], "isr": [1, 2], "elr": [], "last_known_elr": []}
    log = {**place, "begin_offset": 0, "end_offset": 10, "bytes": 100, "torn_bytes": 0}
    header = {"position": 0, "base_offset": 0, "last_offset": 9, "leader_epoch": 0, "size": 100}
    header |= {"magic": 2, "crc": 1, "crc_ok": True, "codec": "none", "producer_id": -1}
    header |= {"producer_epoch": -1, "base_sequence": -1, "transactional": False}
    header |= {"segment": "0.log", "control": False, "records": 10, "max_timestamp": 0}
    rows = {
        "partition_states": [{**state, "partition_epoch": 0, **lists}],
        "replica_logs": [{"broker": n, **log, "complete": True} for n in logs],
    }
    for name, found in rows.items():
        runs.write_table(run_dir / LOCATION[name], getattr(tables, name.upper()), RUN_ID, found)
    (run_dir / LOCATION["replica_batches"]).mkdir()
    file = run_dir / LOCATION["replica_batches"] / "broker-1.parquet"
    found = [{"broker": n, **place, **header} for n in batches]
    runs.write_table(file, tables.REPLICA_BATCHES, RUN_ID, found)


@pytest.mark.parametrize(
    ("logs", "batches", "said"),
    [
        ([1, 2], [1, 2], []),
        ([], [], ["replica_logs has no replica of orders-0"]),
        (
            *([1], [1]),
            ["replica_logs lacks the replicas of orders-0 in its ISR on brokers 2"],
        ),
        (
            *([1, 2], [2]),
            [
                "replica_batches has no batch of orders-0 on broker 1, whose segments end at "
                "offset 10"
            ],
        ),
    ],
)
def test_replicas_that_were_compared_and_left_no_segment_are_named(
    run_dir: Path, logs: list[int], batches: list[int], said: list[str]
) -> None:
    _replicas(run_dir, logs, batches)
    assert reasons(run_dir) == []  # not compared: a segment could not be read, say
    assert reasons(run_dir, observed={**OBSERVED, "diverged": 0}) == said


def test_a_ledger_that_lost_sends_which_its_page_counted_is_named(run_dir: Path) -> None:
    (run_dir / "clients").mkdir()
    page = struct.pack("=5q", State.PRODUCING, 15, 8, 0, 0).ljust(4096, b"\0")
    (run_dir / "clients" / "producer-0.progress").write_bytes(page)
    assert reasons(run_dir) == ["producer 0 counted 15 sends, and its ledger has 0"]
