"""Metrics by the second, against values computed by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.tables import LEDGER
from ackproof_spark.tables import READS as TABLE
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


ACKED = [
    send(0, 0.1, 0.2, offset=10),
    send(0, 1.1, 1.2, offset=14),
    send(1, 1.1, 1.2, offset=3),
    send(0, 3.1, 3.2, offset=15),
]
READS = [read(0, 0.9, 10), read(0, 2.5, 14), read(1, 2.6, 3), read(0, 9.0, 15)]

#: When 200 sends were sent and acked, in seconds.
DRAWN = [
    (sent, sent + draw.lognormvariate(-5, 1))
    for draw in [random.Random(1)]
    for sent in sorted(draw.uniform(0, 2) for _ in range(200))
]

#: Sends and reads of each run.
RUNS = {
    "idle": ([send(0, 0.1, 0.2), send(0, 2.1, 2.2)], []),
    "in-flight": (
        [
            send(0, 0.1, 3.5),
            send(1, 0.1, 0.2),
            send(1, 2.9, 3.0, "failed"),
            send(1, 1.0, None, "unknown"),
        ],
        [],
    ),
    "latencies": ([send(0, 0.0, 0.5), send(0, 0.5, 1.25), send(0, 0.1, 1.5, "failed")], []),
    "drawn": ([send(0, *times) for times in DRAWN], []),
    "never-sent": ([send(0, None, None, "unknown")], []),
    "one-group": (ACKED, READS),
    "slow-group": (ACKED, [*READS, read(0, 1.5, 12, group="slow")]),
    "ahead": (ACKED, [read(0, 0.1, 99), read(1, 0.1, 99)]),
    "unread": (ACKED, []),
    "without-offset": ([send(0, 0.1, 0.2)], [read(0, 0.1, 5)]),
}


def metrics(spark, *, timed=None):
    sends, reads = (
        [{**row, "run_id": run} for run, tables in RUNS.items() for row in tables[table]]
        for table in (0, 1)
    )
    rows = per_second(frame(spark, sends, LEDGER), frame(spark, reads, TABLE), timed=timed)
    by_run = defaultdict(list)
    with small_plans(spark, rows=0):
        found = rows.collect()
    for row in found:
        by_run[row["run_id"]].append(row)
    return by_run


@pytest.fixture(scope="module")
def found(spark):
    """The rows of each run, in order of time; runs are kept apart."""
    return metrics(spark)


def seconds(rows):
    return [
        (row["sent"], row["acked"], row["failed"], row["unknown_outcome"], row["acking_share"])
        for row in rows
    ]


def test_a_second_without_sends_in_flight_has_no_acking_share(found):
    assert seconds(found["idle"]) == [
        (1, 1, 0, 0, None),
        (0, 0, 0, 0, None),
        (1, 1, 0, 0, 1.0),
    ]


def test_a_send_counts_in_every_second_in_which_it_is_in_flight(found):
    assert seconds(found["in-flight"]) == [
        (2, 1, 0, 0, None),
        (1, 0, 0, 1, 0.0),
        (1, 0, 0, 0, 0.0),
        (0, 1, 1, 0, 0.5),
    ]


def test_latencies_are_of_sends_of_the_second(found):
    assert [row["latency_p50_ms"] for row in found["latencies"]] == [500.0, None]
    assert [row["latency_max_ms"] for row in found["latencies"]] == [750.0, None]


def test_quantiles_are_those_of_the_page(found):
    """`test_overview` compares the page with the same function of numpy."""
    for second, row in enumerate(found["drawn"][:2]):
        values = [
            1000 * (round(acked, 6) - round(sent, 6))
            for sent, acked in DRAWN
            if int(sent) == second
        ]
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            exact = np.quantile(values, share, method="inverted_cdf")
            assert row[f"latency_{name}_ms"] == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize("timed", [pytest.param([], marks=pytest.mark.slow), ["idle"]])
def test_a_run_whose_times_are_not_reported_has_no_latency(spark, timed):
    rows = metrics(spark, timed=timed)
    assert [row["latency_max_ms"] for row in rows["latencies"]] == [None, None]
    assert [row["acked"] for row in rows["latencies"]] == [1, 1]
    assert (rows["idle"][0]["latency_max_ms"] is None) == (timed == [])


def test_without_sends_there_is_no_row(spark, found):
    assert "never-sent" not in found
    empty = per_second(frame(spark, [], LEDGER), frame(spark, [], TABLE), timed=None)
    with small_plans(spark, rows=0):
        assert empty.collect() == []


@pytest.mark.parametrize(
    ("run", "lags"),
    [
        ("one-group", [0, 5, 0, 1]),
        # By second: slow has read nothing of one record; it is 2 behind in 0 and 1 in 1 from then
        # on; in the last, one more.
        ("slow-group", [1, 5, 3, 4]),
        ("ahead", [0, 0, 0, 0]),
        ("unread", [None] * 4),
        ("without-offset", [None]),
    ],
)
def test_lag_is_the_highest_lag_of_a_group_over_all_partitions_and_never_negative(found, run, lags):
    assert [row["lag"] for row in found[run]] == lags
