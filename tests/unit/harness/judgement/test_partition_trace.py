"""Traces of a partition from the tables and logs of a run with a failover."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.judgement import partition_trace, trace_validation
from ackproof.judgement.evidence import Evidence
from ackproof.runs.directory import Clock
from ackproof.runs.verdict import PartitionTrace
from ackproof_model.validation.partition_trace import Acked, Loads
from ackproof_spark.tables import LOCATION
from support.run_directories import RunDirectory, at

ORDERS_0 = {"topic": "orders", "partition": 0}
METADATA = Path(__file__).parents[1] / "observation" / "metadata_4.3.1.txt"

SCENARIO = """\
version: 1
name: stored
kafka: "4.3.1"
topics: {orders: {partitions: 1, settings: {min.insync.replicas: 2}}}
workload: {topic: orders, settings: {acks: all, enable.idempotence: true}}
"""

#: Broker 1 leads, is killed at second 20 with offsets 80-99 in its log only, and starts again.
LOGS = {
    1: """
5 Leader orders-0 with topic id Some(x) starts at leader epoch 0 from offset 0 with partition \
epoch 0, high watermark 0, ISR [1,2,3], adding replicas [] and removing replicas []
25 Completed load of Log(dir=/data/orders-0, topicId=x, topic=orders, partition=0, \
highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=100) with 1 segments
26 Follower orders-0 starts at leader epoch 1 from offset 100 with partition epoch 1 and high \
watermark 60. Current leader is 2.
27 [UnifiedLog partition=orders-0, dir=/data] Truncating to offset 80
28 Added fetcher to broker 2 for partitions HashMap(other-1 -> InitialFetchState(Some(y),\
BrokerEndPoint[id=2, host=b, port=9092],1,7), orders-0 -> InitialFetchState(Some(x),\
BrokerEndPoint[id=2, host=b, port=9092],1,100))
""",
    2: """
5 Follower orders-0 starts at leader epoch 0 from offset 0 with partition epoch 0 and high \
watermark 0. Current leader is 1.
6 Added fetcher to broker 1 for partitions HashMap(orders-0 -> InitialFetchState(Some(x),\
BrokerEndPoint[id=1, host=b, port=9092],0,0))
21 Leader orders-0 with topic id Some(x) starts at leader epoch 1 from offset 80 with partition \
epoch 1, high watermark 60, ISR [2,3], adding replicas [] and removing replicas []
30 [Partition orders-0 broker=2] ISR updated to 2,3,1  and version updated to 2
""",
    3: """
5 Follower orders-0 starts at leader epoch 0 from offset 0 with partition epoch 0 and high \
watermark 0. Current leader is 1.
6 Added fetcher to broker 1 for partitions HashMap(orders-0 -> InitialFetchState(Some(x),\
BrokerEndPoint[id=1, host=b, port=9092],0,0))
21 Follower orders-0 starts at leader epoch 1 from offset 75 with partition epoch 1 and high \
watermark 60. Current leader is 2.
22 Added fetcher to broker 2 for partitions HashMap(orders-0 -> InitialFetchState(Some(x),\
BrokerEndPoint[id=2, host=b, port=9092],1,80))
""",
}


def write(run_dir: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    RunDirectory(path=run_dir).write(table, rows, name="producer-0")


def state(second: float, leader: int, epoch: int, number: int, *isr: int) -> dict[str, Any]:
    known = {"leader": leader, "leader_epoch": epoch, "partition_epoch": number, "isr": list(isr)}
    return {**ORDERS_0, **known, "at": at(second), "metadata_offset": number, "replicas": [1, 2, 3]}


STATES = [state(4, 1, 0, 0, 1, 2, 3), state(20, 2, 1, 1, 2, 3), state(30, 2, 1, 2, 1, 2, 3)]


def batch(broker: int, base: int, end: int, epoch: int) -> dict[str, Any]:
    ends = {"position": base, "base_offset": base, "last_offset": end - 1}
    return {**ORDERS_0, **ends, "broker": broker, "leader_epoch": epoch}


def replica(broker: int, **changes: Any) -> dict[str, Any]:
    return {**ORDERS_0, "broker": broker, "end_offset": 120, "complete": True, **changes}


def send(offset: int, second: float, *, sequence: int | None = None) -> dict[str, Any]:
    times = {"sent_at": at(second), "resolved_at": at(second + 0.1)}
    number = offset if sequence is None else sequence
    return {**ORDERS_0, **times, "sequence": number, "outcome": "acked", "offset": offset}


def window(fault: str, node: int = 1, **facts: Any) -> dict[str, Any]:
    names = ("injected_at", "verified_at", "healed_at", "recovered_at")
    times = dict(zip(names, map(at, (20, 20, 24, 26)), strict=True))
    known = {"fault": fault, "nodes": [node], "parameters": "{}", "verified": True}
    return {**times, **known, "facts": json.dumps(facts) if facts else None}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run = RunDirectory.create(tmp_path, {})
    clocks(tmp_path)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    shutil.copy(METADATA, tmp_path / "metadata.log")
    (tmp_path / "logs").mkdir()
    for broker, text in LOGS.items():
        log(tmp_path, broker, text)
    bases = range(0, 120, 20)
    batches = [
        batch(broker, base, base + 20, 0 if base < 80 else 1) for broker in LOGS for base in bases
    ]
    records = [
        {**ORDERS_0, "offset": offset, "state": "intact", "producer": 0, "sequence": offset}
        for offset in range(119)
    ]
    for name, rows in {
        "partition_states": STATES,
        "fault_windows": [window("kill")],
        "replica_logs": [replica(broker) for broker in LOGS],
        "replica_batches": batches,
        "ledger": [send(offset, 10 if offset < 80 else 40) for offset in range(119)],
        "final_log": records,
        "partition_ends": [{**ORDERS_0, "end_offset": 120, "complete": True}],
    }.items():
        run.write(name, rows, name="producer-0")
    return tmp_path


def log(run_dir: Path, broker: int, text: str) -> None:
    lines = [line.partition(" ") for line in text.strip().splitlines()]
    (run_dir / "logs" / f"broker-{broker}.log").write_text(
        "".join(
            f"[{at(int(second)):%Y-%m-%dT%H:%M:%S},000] INFO {text} (some.logger)\n"
            for second, _, text in lines
        )
    )


def clocks(run_dir: Path, *, apart_ms: float = 1.0) -> None:
    clock = Clock(of="broker-1", offset_ms=apart_ms, give_or_take_ms=1.0)
    RunDirectory(path=run_dir).change_record(clocks=[clock])


def observed(run_dir: Path) -> Any:
    [(_, trace)] = partition_trace.traces(Evidence(run_dir=run_dir))
    return trace


def explained(run_dir: Path) -> PartitionTrace:
    [trace] = trace_validation.validate(Evidence(run_dir=run_dir)).partitions
    return trace


def test_the_trace_of_a_partition_is_explained(run_dir: Path) -> None:
    trace = explained(run_dir)
    assert (trace.not_checked, trace.local.mismatch) == ("", "")
    assert trace.local.explained == trace.local.total > 15
    assert trace.local.steps["fetcher begins after a late append of the one before"] == 1
    assert trace.local.steps["truncates by epoch"] == 1


def test_acks_are_grouped_by_final_epoch_and_by_time(run_dir: Path) -> None:
    # The first leader acks nothing from a second after it was loaded again.
    late = send(50, 60)
    write(run_dir, "ledger", [send(10, 10), send(70, 10), send(90, 40), late])
    assert observed(run_dir).acks == (
        Acked(offset=10, everyone=True, epoch=0, lost=False, first=0, last=0),
        Acked(offset=70, everyone=True, epoch=0, lost=False, first=0, last=0),
        Acked(offset=50, everyone=True, epoch=0, lost=False, first=2, last=2),
        Acked(offset=90, everyone=True, epoch=1, lost=False, first=2, last=2),
    )


def test_clocks_that_differ_too_much_do_not_date_acks(run_dir: Path) -> None:
    clocks(run_dir, apart_ms=60_000.0)
    acks = observed(run_dir).acks
    assert {(ack.first, ack.last) for ack in acks} == {(0, 2)}
    clocks(run_dir)
    write(run_dir, "fault_windows", [window("skew_clock")])
    assert {(ack.first, ack.last) for ack in observed(run_dir).acks} == {(0, 2)}


def test_an_ack_of_a_replaced_record_is_lost(run_dir: Path) -> None:
    write(run_dir, "ledger", [send(75, 10), send(79, 10, sequence=500)])
    first, second = observed(run_dir).acks
    assert (first.lost, second.lost) == (False, True)
    # Offsets below 80 were written in epoch 0 only, and the logs have epoch 0 there.
    assert "acks=all of offset 79, which is lost" in explained(run_dir).local.mismatch


def test_a_record_of_an_aborted_transaction_is_on_disk_and_not_in_the_final_log(
    run_dir: Path,
) -> None:
    write(run_dir, "ledger", [send(110, 40), send(119, 40), send(79, 10, sequence=500)])
    acks = {ack.offset: ack.lost for ack in observed(run_dir).acks}
    assert acks == {110: False, 119: True, 79: True}
    rows = [batch(2, base, base + 20, 0) | {"transactional": True} for base in range(0, 120, 20)]
    write(run_dir, "replica_batches", rows)
    acks = {ack.offset: ack.lost for ack in observed(run_dir).acks}
    # At offset 79 the final log has another record, so the acked one is lost in any case.
    assert acks == {110: False, 119: None, 79: True}
    write(run_dir, "replica_batches", [row | {"control": True} for row in rows])
    assert {ack.offset: ack.lost for ack in observed(run_dir).acks}[119] is True


def test_an_acked_record_that_an_isr_member_lacked_is_a_finding(
    run_dir: Path,
) -> None:
    # No follower fetched offset 90 of epoch 0, and it was acked before epoch 1 began.
    write(run_dir, "ledger", [send(90, 10, sequence=500)])
    traced = trace_validation.validate(Evidence(run_dir=run_dir))
    [finding] = trace_validation.findings(traced)
    assert (finding.anomaly, finding.predicted) == ("unexplained-log", "impossible")
    assert re.search(
        r"explains \d+ of \d+ steps of orders-0; the first that does not fit: orders-0: acks=all "
        r"of offset 90, which is lost; by the rules: leader 1 in epoch 0, ISR \[1, 2, 3\]: "
        r"broker 2 reached 80, broker 3 reached 80",
        finding.explanation,
    )


def test_a_fetcher_restarted_in_the_same_epoch_is_explained(run_dir: Path) -> None:
    again = (
        LOGS[3].strip().splitlines()[-1].replace("22 Added", "40 Added").replace(",80))", ",110))")
    )
    log(run_dir, 3, f"{LOGS[3].strip()}\n{again}")
    trace = explained(run_dir)
    assert trace.local.mismatch == ""
    assert trace.local.steps["fetcher begins"] == 4


def test_an_impossible_log_line_is_a_finding(run_dir: Path) -> None:
    log(run_dir, 1, LOGS[1].replace("Truncating to offset 80", "Truncating to offset 60"))
    assert "truncates to offset 60" in explained(run_dir).local.mismatch


def test_a_different_log_on_disk_is_a_finding(run_dir: Path) -> None:
    rows = [
        batch(broker, base, base + 20, 0 if base < (60 if broker == 3 else 80) else 1)
        for broker in LOGS
        for base in range(0, 120, 20)
    ]
    write(run_dir, "replica_batches", rows)
    assert "broker 3 holds in the end 0-59 of epoch 0" in explained(run_dir).local.mismatch


def loads(run_dir: Path) -> Loads:
    [step] = [each for each in observed(run_dir).brokers[1] if isinstance(each, Loads)]
    return step


def cut(partition: str, end: int, before: int) -> dict[str, Any]:
    return {"broker": 1, "partition": partition, "end": end, "end_before": before}


def test_the_facts_of_a_power_loss_are_used(run_dir: Path) -> None:
    assert not loads(run_dir).lossy
    cuts = [cut("orders-0", 100, 150), cut("orders-1", 1, 2)]
    write(run_dir, "fault_windows", [window("power_loss", cuts=cuts)])
    assert (loads(run_dir).lossy, loads(run_dir).before) == (True, 150)
    assert explained(run_dir).local.mismatch == ""
    write(run_dir, "fault_windows", [window("power_loss", cuts=[cut("other-0", 1, 2)])])
    assert not loads(run_dir).lossy
    write(run_dir, "fault_windows", [window("power_loss")])
    assert (loads(run_dir).lossy, loads(run_dir).before) == (True, None)


def test_a_run_without_facts_of_faults_is_read(run_dir: Path) -> None:
    write(run_dir, "fault_windows", [window("power_loss", cuts=[cut("orders-0", 100, 150)])])
    path = run_dir / LOCATION["fault_windows"]
    pq.write_table(pq.read_table(path).drop_columns(["facts"]), path)
    assert (loads(run_dir).lossy, loads(run_dir).before) == (True, None)


def unlink(*names: str) -> Callable[[Path], None]:
    def change(run_dir: Path) -> None:
        for name in names:
            (run_dir / name).unlink()

    return change


def table(name: str, *rows: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda run_dir: write(run_dir, name, rows)


def settings(old: str, new: str) -> Callable[[Path], None]:
    def change(run_dir: Path) -> None:
        assert old in SCENARIO
        (run_dir / "scenario.yaml").write_text(SCENARIO.replace(old, new))

    return change


def reworded(words: str) -> Callable[[Path], None]:
    def change(run_dir: Path) -> None:
        for broker, text in LOGS.items():
            log(run_dir, broker, text.replace(words, "Something else"))

    return change


def elected_later(run_dir: Path) -> None:
    log(run_dir, 3, f"{LOGS[3].strip()}\n{LOGS[1].strip().splitlines()[0]}".replace("h 0", "h 2"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (unlink("metadata.log"), "there is no metadata log of a controller"),
        (unlink("replica_logs.parquet"), "the replicas' disks were not read"),
        (unlink("logs/broker-2.log"), "the log of broker 2 is missing"),
        (
            settings(
                "topics:", "cluster: {attach: {bootstrap: 'a:1', topic_prefix: ord}}\ntopics:"
            ),
            "an attached cluster's broker logs are not available",
        ),
        (
            table("fault_windows", window("wipe_volume"), window("disk_full")),
            "the rules do not know what disk_full, wipe_volume changed",
        ),
        (
            table("fault_windows", window("power_loss", node=3)),
            "broker 3 lost power, and its log does not say what it loaded",
        ),
        (table("partition_states"), "the controller's log does not contain it"),
        (
            table("partition_states", *STATES, STATES[-1] | {"replicas": [2, 3, 4]}),
            "its replicas were reassigned",
        ),
        (
            table("replica_logs", replica(1), replica(2, begin_offset=20)),
            "the log of broker 2 begins at 20",
        ),
        (
            table("replica_batches", batch(1, 0, 20, 0), batch(1, 40, 60, 0)),
            "the log of broker 1 has gaps",
        ),
        (elected_later, "a leader was elected after the controllers' log had been read"),
        (reworded("Leader orders"), "no broker's log has a line about becoming leader"),
        (reworded("InitialFetchState"), "no broker's log has a line about fetching from a leader"),
    ],
)
def test_an_undecidable_partition_is_not_checked(
    run_dir: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(run_dir)
    traced = trace_validation.validate(Evidence(run_dir=run_dir))
    assert traced.not_checked == [f"orders-0: {reason}"]
    assert [trace.local for trace in traced.partitions] == [None]
    assert trace_validation.findings(traced) == []


def test_a_changed_preferred_order_is_explained(run_dir: Path) -> None:
    ordered = [{**state, "replicas": [2, 3, 1]} for state in STATES[1:]]
    table("partition_states", *STATES[:1], *ordered)(run_dir)
    table("fault_windows", window("kill"), window("reassign"))(run_dir)
    traced = trace_validation.validate(Evidence(run_dir=run_dir))
    assert (traced.not_checked, trace_validation.findings(traced)) == ([], [])


def test_a_run_with_too_many_sends_is_not_checked(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_trace, "MOST_SENDS", 118)
    assert str(observed(run_dir)) == "the run has 119 sends, more than 118"
