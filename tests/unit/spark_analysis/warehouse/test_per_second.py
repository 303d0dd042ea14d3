"""Metrics by the second, against values computed by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof_spark.tables import LEDGER, READS
from ackproof_spark.warehouse.formats import frame
from ackproof_spark.warehouse.timelines import per_second

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def send(
    partition: int,
    sent: float | None,
    resolved: float | None,
    outcome: str = "acked",
    *,
    offset: int | None = None,
):
    return {
        "schema_version": 1,
        "run_id": "r",
        "producer": 0,
        "sequence": 0,
        "topic": "t",
        "partition": partition,
        "outcome": outcome,
        "offset": offset,
        "sent_at": None if sent is None else START + timedelta(seconds=sent),
        "resolved_at": None if resolved is None else START + timedelta(seconds=resolved),
    }


def read(partition: int, at: float, offset: int, *, group: str = "g"):
    return {
        "schema_version": 1,
        "run_id": "r",
        "consumer": 0,
        "group": group,
        "isolation_level": "read_committed",
        "poll": 1,
        "number": 0,
        "topic": "t",
        "partition": partition,
        "offset": offset,
        "read_at": START + timedelta(seconds=at),
    }


def test_runs_are_kept_apart(spark):
    of_r, of_q = send(0, 0.1, 0.2, offset=10), {**send(0, 1.1, 2.2, offset=3), "run_id": "q"}
    rows = metrics(spark, of_r, of_q, reads=[{**read(0, 9.0, 1), "run_id": "q"}])
    assert [(row["run_id"], row["sent"], row["acked"], row["lag"]) for row in rows] == [
        ("q", 1, 0, None),
        ("q", 0, 1, 1),
        ("r", 1, 1, None),
    ]


def metrics(spark, *sends, reads=(), timed=None):
    ledger, read = frame(spark, sends, LEDGER), frame(spark, reads, READS)
    return per_second(ledger, read, timed=timed).collect()


def seconds(spark, *sends):
    rows = metrics(spark, *sends)
    return [
        (row["sent"], row["acked"], row["failed"], row["unknown_outcome"], row["availability"])
        for row in rows
    ]


def test_a_second_without_sends_in_flight_has_no_availability(spark):
    assert seconds(spark, send(0, 0.1, 0.2), send(0, 2.1, 2.2)) == [
        (1, 1, 0, 0, None),
        (0, 0, 0, 0, None),
        (1, 1, 0, 0, 1.0),
    ]


def test_a_send_counts_in_every_second_in_which_it_is_in_flight(spark):
    assert seconds(
        spark,
        send(0, 0.1, 3.5),
        send(1, 0.1, 0.2),
        send(1, 2.9, 3.0, "failed"),
        send(1, 1.0, None, "unknown"),
    ) == [
        (2, 1, 0, 0, None),
        (1, 0, 0, 1, 0.0),
        (1, 0, 0, 0, 0.0),
        (0, 1, 1, 0, 0.5),
    ]


def test_latencies_are_of_sends_acked_in_the_second(spark):
    rows = metrics(spark, send(0, 0.0, 0.5), send(0, 0.5, 1.25), send(0, 0.1, 1.5, "failed"))
    assert [row["latency_p50_ms"] for row in rows] == [500.0, 750.0]
    assert [row["latency_max_ms"] for row in rows] == [500.0, 750.0]


@pytest.mark.parametrize("timed", [[], ["another"]])
def test_a_run_whose_times_are_not_reported_has_no_latency(spark, timed):
    [row] = metrics(spark, send(0, 0.0, 0.5), timed=timed)
    assert (row["acked"], row["latency_p50_ms"], row["latency_max_ms"]) == (1, None, None)


def test_without_sends_there_is_no_row(spark):
    assert seconds(spark) == []
    assert seconds(spark, send(0, None, None, "unknown")) == []


def lags(spark, sends, reads):
    return [row["lag"] for row in metrics(spark, *sends, reads=reads)]


ACKED = [
    send(0, 0.1, 0.2, offset=10),
    send(0, 1.1, 1.2, offset=14),
    send(1, 1.1, 1.2, offset=3),
    send(0, 3.1, 3.2, offset=15),
]


def test_lag_is_the_highest_lag_of_a_group_over_all_partitions(spark):
    reads = [
        read(0, 0.9, 10),
        read(0, 2.5, 14),
        read(1, 2.6, 3),
        read(0, 1.5, 12, group="slow"),
        read(0, 9.0, 15),
    ]
    # By second: slow has read nothing of one record; it is 2 behind in 0 and 1 in 1 from then on;
    # in the last, one more.
    assert lags(spark, ACKED, reads) == [1, 5, 3, 4]
    assert lags(spark, ACKED, [one for one in reads if one["group"] == "g"]) == [0, 5, 0, 1]


def test_lag_is_never_negative(spark):
    assert lags(spark, ACKED, [read(0, 0.1, 99), read(1, 0.1, 99)]) == [0, 0, 0, 0]


def test_without_consumers_or_offsets_there_is_no_lag(spark):
    assert lags(spark, ACKED, []) == [None] * 4
    assert lags(spark, [send(0, 0.1, 0.2)], [read(0, 0.1, 5)]) == [None]
