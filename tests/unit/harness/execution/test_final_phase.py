"""The run reports records after the closing record, and brokers that do not run."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.errors import ClusterError
from ackproof.execution.final_phase import appended_since, require_running, take_delivered
from ackproof.ledger.log_lines import LogReport
from ackproof_faults.interfaces.cluster import TopicPartition
from support.fake_cluster import FakeCluster

ENDS = {("orders", 0): 20, ("orders", 1): 0, ("orders", 2): 5}


def test_a_log_that_ends_with_its_closing_record_is_complete() -> None:
    # A high watermark may lag behind.
    assert appended_since(ENDS, lambda _: {**dict.fromkeys(ENDS, 1), ("orders", 0): 21}) == []


def test_offsets_after_the_closing_record_are_reported() -> None:
    asked: list[TopicPartition] = []

    def ends_now(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked.extend(partitions)
        return {("orders", 0): 24, ("orders", 1): 1, ("orders", 2): 7}

    assert appended_since(ENDS, ends_now) == [
        "orders-0: 3 offsets after the closing record at 20 were not compared",
        "orders-2: 1 offsets after the closing record at 5 were not compared",
    ]
    assert asked == list(ENDS)


def test_an_unknown_end_is_reported() -> None:
    def refused(_: object) -> dict[TopicPartition, int]:
        raise ClusterError("no answer")

    assert appended_since(ENDS, refused) == [
        "the records after the closing records are unknown: no answer"
    ]


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
