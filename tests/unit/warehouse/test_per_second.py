"""Metrics by the second, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof.spark_analysis.tables import LEDGER
from ackproof.spark_analysis.warehouse.formats import frame
from ackproof.spark_analysis.warehouse.per_second import per_second

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def send(partition: int, sent: float | None, resolved: float | None, outcome: str = "acked"):
    return {
        "schema_version": 1,
        "run_id": "r",
        "producer": 0,
        "sequence": 0,
        "topic": "t",
        "partition": partition,
        "outcome": outcome,
        "sent_at": None if sent is None else START + timedelta(seconds=sent),
        "resolved_at": None if resolved is None else START + timedelta(seconds=resolved),
    }


def seconds(spark, *sends):
    rows = per_second(frame(spark, sends, LEDGER)).collect()
    return [
        (row["sent"], row["acked"], row["failed"], row["unknown"], row["availability"])
        for row in rows
    ]


def test_a_second_in_which_nothing_is_under_way_has_no_availability(spark):
    assert seconds(spark, send(0, 0.1, 0.2), send(0, 2.1, 2.2)) == [
        (1, 1, 0, 0, 1.0),
        (0, 0, 0, 0, None),
        (1, 1, 0, 0, 1.0),
    ]


def test_a_send_under_way_makes_its_seconds_count(spark):
    assert seconds(
        spark,
        send(0, 0.1, 3.5),
        send(1, 0.1, 0.2),
        send(1, 2.9, 3.0, "failed"),
        send(1, 1.0, None, "unknown"),
    ) == [
        (2, 1, 0, 0, 0.5),
        (1, 0, 0, 1, 0.0),
        (1, 0, 0, 0, 0.0),
        (0, 1, 1, 0, 0.5),
    ]


def test_latencies_are_of_what_was_acked_in_the_second(spark):
    rows = per_second(
        frame(
            spark,
            [send(0, 0.0, 0.5), send(0, 0.5, 1.25), send(0, 0.1, 1.5, "failed")],
            LEDGER,
        )
    ).collect()
    assert [row["latency_p50_ms"] for row in rows] == [500.0, 750.0]
    assert [row["latency_max_ms"] for row in rows] == [500.0, 750.0]


def test_nothing_sent_is_no_second(spark):
    assert seconds(spark) == []
    assert seconds(spark, send(0, None, None, "unknown")) == []
