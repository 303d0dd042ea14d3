"""The run reports records after the closing record, and brokers that do not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.errors import ClusterError
from ackproof.execution.final_phase import (
    appended_since,
    mark_appended,
    require_running,
    take_delivered,
)
from ackproof.execution.run_state import RunState
from ackproof.ledger.log_lines import LogReport
from ackproof.runs.directory import table_rows
from ackproof_faults.interfaces.cluster import TopicPartition
from support.fake_cluster import FakeCluster

ENDS = {("orders", 0): 20, ("orders", 1): 0, ("orders", 2): 5}


def test_a_log_that_ends_with_its_closing_record_is_complete() -> None:
    # A high watermark may lag behind.
    assert appended_since(ENDS, lambda _: {**dict.fromkeys(ENDS, 1), ("orders", 0): 21}) == {}


def test_offsets_after_the_closing_record_are_reported() -> None:
    asked: list[TopicPartition] = []

    def ends_now(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked.extend(partitions)
        return {("orders", 0): 24, ("orders", 1): 1, ("orders", 2): 7}

    assert appended_since(ENDS, ends_now) == {
        ("orders", 0): "3 offsets after the closing record at 20 were not compared",
        ("orders", 2): "1 offsets after the closing record at 5 were not compared",
    }
    assert asked == list(ENDS)


@pytest.mark.parametrize(
    ("now", "complete"), [({("orders", 0): 24}, False), ({("orders", 0): 21}, True), (None, True)]
)
def test_such_a_partition_was_not_read_to_its_end(
    tmp_path: Path, now: dict[TopicPartition, int] | None, complete: bool
) -> None:
    def ends_now(_: object) -> dict[TopicPartition, int]:
        if now is None:
            raise ClusterError("no answer")
        return now

    configured: Any = SimpleNamespace()
    run = RunState(configured, tmp_path)
    end = {"topic": "orders", "partition": 0, "begin_offset": 0, "end_offset": 20}
    run.write("partition_ends", [{**end, "complete": True, "reason": None}])
    cluster: Any = SimpleNamespace(admin=SimpleNamespace(end_offsets=ends_now))
    mark_appended({("orders", 0): 20}, cluster, run)
    (row,) = table_rows(tmp_path, "partition_ends")
    assert row["complete"] is complete
    assert (row["reason"] is None) is complete
    assert len(run.troubles) == (now is None)


def test_a_broker_that_does_not_run_after_all_faults_is_named() -> None:
    require_running(FakeCluster())
    require_running(FakeCluster(exits={1: 1}, only=("metadata", "processes")))  # attached
    with pytest.raises(
        ClusterError, match=r"^broker 2 does not run \(exit status 1\), and no fault"
    ):
        require_running(FakeCluster(exits={1: None, 2: 1, 3: None}))


def test_a_bad_delivery_log_makes_the_run_inconclusive() -> None:
    report = LogReport(unread=["torn lines"], remarks=["no answers"])
    clients: Any = SimpleNamespace(take_delivery_logs=lambda: report)
    run: Any = SimpleNamespace(troubles=["before"], unobserved=[])
    take_delivered(clients, run)
    assert (run.troubles, run.unobserved) == (["before", "torn lines"], ["no answers"])
