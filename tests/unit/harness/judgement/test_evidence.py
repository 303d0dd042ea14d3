"""Evidence that is missing or contradicts the scenario makes a run inconclusive."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
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
OBSERVED = {"sent": 10, "acked": 10, "failed": 0, "unknown": 0, "diverged": 0}
KILL = {"fault": "kill", "target": "leader of orders-0", "when": "3 acked", "heal_after": "1s"}


TIMES = ("injected_at", "verified_at", "healed_at", "recovered_at")


def window(fault: str = "kill", **changes: Any) -> FaultReport:
    row = {
        "window": 0,
        "fault": fault,
        "target": "leader of orders-0",
        "nodes": [1],
        "parameters": "{}",
        "trigger": "",
        "verified": True,
        "evidence": "broker 1 ended by SIGKILL",
        **{name: START + timedelta(seconds=second) for second, name in enumerate(TIMES, 1)},
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
        ((window(healed_at=START),), "kill of leader of orders-0 has times that are not in order"),
        (
            (window(), window(window=1)),
            "the scenario injects kill once, and fault_windows records it 2 times",
        ),
        ((window(window=1),), "are not numbered from 0 without a gap"),
        ((window(nodes=[]),), "kill of leader of orders-0 has hit no node"),
        ((window(nodes=[1, 2]),), "kill of leader of orders-0 has hit 1, 2"),
        ((window(target="broker 7"),), "kill of broker 7 is none that the scenario injects"),
        ((window(evidence=""),), "is called verified without evidence"),
        (
            (window(healed_at=None, recovered_at=None),),
            "kill of leader of orders-0 was never healed",
        ),
        ((window(injected_at=START - timedelta(days=1)),), "is dated outside the run"),
        (
            (window(**{name: START.replace(year=2030) for name in TIMES}),),
            "kill of leader of orders-0 is dated outside the run",
        ),
    ],
)
def test_a_fault_that_left_no_proof_is_named(
    run_dir: Path, faults: tuple[FaultReport, ...], said: str
) -> None:
    change_scenario(run_dir, faults=[KILL])
    assert said in "; ".join(reasons(run_dir, faults=faults))


def test_a_loop_of_faults_that_left_none_is_named(run_dir: Path) -> None:
    change_scenario(run_dir, faults=[{"sequence": [KILL], "repeat": 2}])
    twice = (window(), window(window=1))
    assert reasons(run_dir, faults=twice) == []
    assert reasons(run_dir) == ["the scenario injects faults, and fault_windows records none"]
    said = "the scenario injects kill at most 2 times, and fault_windows records it 3 times"
    assert reasons(run_dir, faults=(*twice, window(window=2))) == [said]


def test_a_fault_at_brokers_of_the_scenario_has_hit_these(run_dir: Path) -> None:
    change_scenario(run_dir, faults=[{**KILL, "target": [1, 3]}])
    assert reasons(run_dir, faults=(window(target="broker 1, 3", nodes=[1, 3]),)) == []
    (said,) = reasons(run_dir, faults=(window(target="broker 1, 3", nodes=[1, 2]),))
    assert said == "kill of broker 1, 3 has hit 1, 2"


def test_a_fault_whose_target_is_drawn_may_hit_any_broker(run_dir: Path) -> None:
    change_scenario(run_dir, faults=[{**KILL, "target": "any broker"}])
    assert reasons(run_dir, faults=(window(target="broker 2", nodes=[2]),)) == []
    assert "injects kill once" in reasons(run_dir)[0]


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
        ([{"end_offset": 11}], "ends at offset 11, and its final log has nothing after offset 9"),
        ([{"end_offset": 2**63 - 1}], "and its final log has nothing after offset 9"),
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


def test_a_log_that_may_end_with_markers_of_transactions_is_not_named(run_dir: Path) -> None:
    end = {"topic": TOPIC, "partition": 0, "begin_offset": 0, "end_offset": 12, "complete": True}
    runs.write_table(run_dir / LOCATION["partition_ends"], PARTITION_ENDS, RUN_ID, [end])
    assert "and its final log has nothing after offset 9" in reasons(run_dir)[0]
    change_scenario(run_dir, workload={"transactions": {"size": 10}})
    assert not [reason for reason in reasons(run_dir) if "ends at" in reason]


def test_a_log_that_was_not_read_to_its_end_is_named_once(run_dir: Path) -> None:
    end = {"topic": TOPIC, "partition": 0, "begin_offset": 0, "end_offset": 12, "complete": False}
    runs.write_table(run_dir / LOCATION["partition_ends"], PARTITION_ENDS, RUN_ID, [end])
    assert reasons(run_dir) == []  # `conclusiveness` says it


@pytest.mark.parametrize("statistics", [True, False])
def test_a_consumer_group_that_left_nothing_is_named(run_dir: Path, statistics: bool) -> None:
    into = {"commit": "transaction", "into": ["copies"]}
    groups = {"a": {"commit": "after"}, "b": {"commit": "after"}, "c": into}
    topics = {"orders": {"settings": {"min.insync.replicas": 2}}, "copies": {}}
    change_scenario(run_dir, topics=topics, workload={"consumers": groups})
    record = {"consumer": 0, "topic": TOPIC, "partition": 0, "offset": 0, "poll": 0, "number": 0}
    record |= {"isolation_level": "read_committed", "event": "started"}
    record |= dict.fromkeys(("at", "read_at", "processed_at"), START)
    for table, left in (("reads", "ac"), ("consumer_events", "abc"), ("effects", "a")):
        (run_dir / LOCATION[table]).mkdir()
        schema = getattr(tables, table.upper())
        for number, group in enumerate(left):
            file = run_dir / LOCATION[table] / f"consumer-{number}.parquet"
            row = {key: record[key] for key in record if key in schema.names}
            runs.write_table(file, schema, RUN_ID, [{**row, "group": group}])
            pq.write_table(pq.read_table(file), file, write_statistics=statistics)
    assert reasons(run_dir) == [
        "the table reads has nothing of the consumer group b",
        "the table effects has nothing of the consumer group b",
    ]


def test_a_client_of_a_sealed_run_without_its_page_is_named(run_dir: Path) -> None:
    (run_dir / "clients").mkdir()
    (run_dir / "clients" / "producer-0.json").write_text("{}")
    assert reasons(run_dir) == []  # a run of an older ackproof
    seal(run_dir, runs.read_record(run_dir).model_copy(update={"readers": ["kafka"]}))
    assert reasons(run_dir) == ["the progress page of producer-0 is missing"]


def test_reads_that_end_before_their_partition_are_named(run_dir: Path) -> None:
    read = {"consumer": 0, "group": "g", "isolation_level": "read_committed", "topic": TOPIC}
    read |= {"partition": 0, "offset": 8, "poll": 0, "number": 0, "read_at": START}
    (run_dir / LOCATION["reads"]).mkdir()
    file = run_dir / LOCATION["reads"] / "consumer-0.parquet"
    runs.write_table(file, tables.READS, RUN_ID, [read])
    (run_dir / "clients").mkdir()
    page = struct.pack("=5q", State.DONE, 1, 0, 0, 0).ljust(4096, b"\0")
    (run_dir / "clients" / "consumer-0.progress").write_bytes(page)
    assert "g has consumed to the end, and read orders-0 up to offset 8 of 9" in reasons(run_dir)


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
    counts = {key: count for key, count in OBSERVED.items() if key != "diverged"}
    for expected in ("some", "none"):
        change_scenario(run_dir, expect={"diverged": expected})
        said = f"diverged: {expected} is expected, and the replicas' segments were not compared"
        assert reasons(run_dir, observed=counts) == [said]
        assert reasons(run_dir) == []
    change_scenario(run_dir, expect={"diverged": "any"})
    assert reasons(run_dir, observed=counts) == []


def test_a_replica_that_was_not_read_to_its_end_is_named(run_dir: Path) -> None:
    change_scenario(run_dir, expect={"diverged": "none"})
    _replicas(run_dir, [1, 2], [1, 2], unread={2: "more than 2 GiB"})
    counts = {key: count for key, count in OBSERVED.items() if key != "diverged"}
    assert reasons(run_dir, observed=counts) == [
        "diverged: none is expected, and orders-0 on broker 2 was not compared to its end: more "
        "than 2 GiB"
    ]


def test_a_partition_without_an_isr_is_named(run_dir: Path) -> None:
    _replicas(run_dir, [1, 2], [1, 2], isr=[])
    assert reasons(run_dir) == ["partition_states ends without an ISR of orders-0"]


def _replicas(
    run_dir: Path,
    logs: list[int],
    batches: list[int],
    *,
    isr: Sequence[int] = (1, 2),
    unread: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Write the tables of brokers 1 and 2, both in sync, as far as these lists name them."""
    place = {"topic": TOPIC, "partition": 0}
    state = {"at": START, "metadata_offset": 3, **place, "leader": 1, "leader_epoch": 0}
    lists = {"replicas": [1, 2], "isr": list(isr), "elr": [], "last_known_elr": []}
    log = {**place, "begin_offset": 0, "end_offset": 10, "bytes": 100, "torn_bytes": 0}
    header = {"position": 0, "base_offset": 0, "last_offset": 9, "leader_epoch": 0, "size": 100}
    header |= {"magic": 2, "crc": 1, "crc_ok": True, "codec": "none", "producer_id": -1}
    header |= {"producer_epoch": -1, "base_sequence": -1, "transactional": False}
    header |= {"segment": "0.log", "control": False, "records": 10, "max_timestamp": 0}
    rows = {
        "partition_states": [{**state, "partition_epoch": 0, **lists}],
        "replica_logs": [
            {"broker": n, **log, "complete": n not in unread, "reason": unread.get(n)} for n in logs
        ],
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
    assert reasons(run_dir) == said


def test_a_ledger_that_lost_sends_which_its_page_counted_is_named(run_dir: Path) -> None:
    (run_dir / "clients").mkdir()
    page = struct.pack("=5q", State.PRODUCING, 15, 8, 0, 0).ljust(4096, b"\0")
    (run_dir / "clients" / "producer-0.progress").write_bytes(page)
    assert reasons(run_dir) == ["producer 0 counted 15 sends, and its ledger has 0"]
