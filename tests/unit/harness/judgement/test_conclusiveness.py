from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.judgement.conclusiveness import (
    claimable,
    inconclusive_reasons,
    unknown_fates,
    without_times,
)
from ackproof.judgement.expectations import check_expectations
from ackproof.runs.directory import RunRecord, write_table
from ackproof.runs.verdict import Latency, Metrics
from ackproof.scenario.model import Expect, Scenario
from ackproof_spark.tables import PARTITION_ENDS


def test_a_client_bottleneck_removes_the_latency() -> None:
    latency = Latency(p50=1, p95=1, p99=1, p999=1, max=1)
    measured = Metrics(
        duration_s=1,
        acked_per_s=1,
        unavailability_s=0,
        unavailability_gap_s=1,
        ack_latency_ms=latency,
    )
    assert claimable(measured, []).ack_latency_ms == latency
    assert claimable(measured, ["producer 0 was busy 99% of the time"]).ack_latency_ms is None


@pytest.mark.parametrize("duration_s", [0, 1])
def test_no_time_that_passed_is_no_availability(duration_s: float) -> None:
    measured = Metrics(
        duration_s=duration_s,
        acked_per_s=0,
        unavailability_s=0,
        unavailability_gap_s=1,
        ack_latency_ms=None,
    )
    assert without_times(Expect(), measured, []) == []
    expect = Expect(availability=">= 99 %")
    assert bool(without_times(expect, measured, [])) is not bool(duration_s)
    (line,) = (
        line for line in check_expectations(expect, {}, measured) if line.what == "availability"
    )
    assert line.met is bool(duration_s)


@pytest.mark.parametrize(
    ("settings", "removed", "told"),
    [
        ({"retention.ms": 1000}, "some", False),
        ({"retention.ms": 1000}, "any", True),
        ({}, "some", True),  # nothing of the topic's settings explains it
    ],
)
def test_a_head_that_is_gone_is_inconclusive_unless_retention_is_to_remove_it(
    settings: dict[str, int], removed: str, told: bool, tmp_path: Path
) -> None:
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "name": "s",
            "topics": {"orders": {"settings": settings}},
            "workload": {"topic": "orders", "settings": {"acks": 1, "enable.idempotence": False}},
            "expect": {"loss": "any", "removed": removed},
        }
    )
    end = {"topic": "orders", "partition": 0, "begin_offset": 7, "end_offset": 9, "complete": True}
    write_table(tmp_path / "partition_ends.parquet", PARTITION_ENDS, "run-1", [end])
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reasons = inconclusive_reasons(
        tmp_path,
        scenario,
        RunRecord(run_id="run-1", image="i", pid=1, started_at=at),
        faults=[],
        observed={"unseen": 0, "sent": 9, "acked": 9, "failed": 0, "unknown": 0},
        unacked_partitions=[],
    )
    assert any("begins at offset 7" in one for one in reasons) is told


def test_what_became_of_removed_records_is_not_claimed() -> None:
    assert unknown_fates({"acked": 9}) == unknown_fates({"removed": 0}) == []
    (told,) = unknown_fates({"removed": 1200})
    assert told.startswith("whether 1,200 acked sends had been lost")
