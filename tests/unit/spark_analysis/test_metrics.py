"""The metrics of a run, on ledgers small enough to compute by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof_spark.metrics import as_metrics, metric_questions, processing, unavailability
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.small_data import answers, small_plans
from spark_histories import _START, parse, write_run, write_table

pytestmark = pytest.mark.spark


def _run(run_dir, *sends: str):
    write_run(run_dir, {"t": parse({"sends": sends})})
    return run_dir


def metrics(spark, run_dir, **stops):
    ledger = StoredRun(spark=spark, run_dir=run_dir)["ledger"]
    with small_plans(spark, rows=0):
        return as_metrics(answers(**metric_questions(ledger, **stops)))


#: Sends, and the seconds of unavailability.
CASES = {
    "an idle producer is no outage": (
        ["1/0 to 0: acked at 0 [0-0.1]", "1/1 to 0: acked at 1 [30-30.1]"],
        0.0,
    ),
    "from the first send in flight to its ack": (
        ["1/0 to 0: acked at 0 [0-0.1]", "1/1 to 0: acked at 1 [1-3]"],
        2.0,
    ),
    # 0 to 2 until the first ack, then 2 to 5 with sequence 1 in flight all the time.
    "from the ack before, if a send is in flight already": (
        ["1/0 to 0: acked at 0 [1-2]", "1/1 to 0: acked at 1 [0-5]"],
        5.0,
    ),
    "failed attempts start the clock": (
        [
            "1/0 to 0: acked at 0 [0-0.1]",
            "1/1 to 0: failed X [3-4]",
            "1/2 to 0: acked at 1 [4.1-5]",
        ],
        2.0,
    ),
    "half a second is not longer than half a second": (
        ["1/0 to 0: acked at 0 [0-0.5]", "1/1 to 0: acked at 1 [1-1.5]"],
        0.0,
    ),
    "never acked: first send to last outcome": (
        ["1/0 to 0: unknown [0-9]", "1/1 to 0: unknown [4-9]"],
        9.0,
    ),
    "after the last ack: until the last outcome": (
        ["1/0 to 0: acked at 0 [0-0.1]", "1/1 to 0: unknown [2-9]", "1/2 to 0: unknown [5-9]"],
        7.0,
    ),
    # From the dead producer's attempt at 0.2 to 9.1; not from 9.1 to 20 as well.
    "a send of a dead producer counts only when it was sent": (
        [
            *("1/0 to 0: acked at 0 [0-0.1]", "2/0 to 0: unknown [0.2-]"),
            *("1/1 to 0: acked at 1 [9-9.1]", "1/2 to 0: acked at 2 [20-20.1]"),
        ],
        8.9,
    ),
    "the worst partition counts, its stretches summed": (
        ["1/0 to 0: acked at 0 [0-2]", "1/1 to 1: acked at 0 [0-3]", "1/2 to 1: acked at 1 [4-5]"],
        4.0,
    ),
}


@pytest.fixture(scope="module")
def unavailable_s(spark, tmp_path_factory) -> dict[str, float]:
    """The unavailability of the worst partition of each case; a case is a topic."""
    run_dir = tmp_path_factory.mktemp("cases")
    write_run(run_dir, {name: parse({"sends": sends}) for name, (sends, _) in CASES.items()})
    worst = (
        unavailability(StoredRun(spark=spark, run_dir=run_dir)["ledger"])
        .groupBy("topic")
        .agg({"unavailability_s": "max"})
    )
    with small_plans(spark, rows=0):
        return dict(map(tuple, worst.collect()))


@pytest.mark.parametrize("name", CASES)
def test_unavailability(unavailable_s, name):
    assert unavailable_s[name] == pytest.approx(CASES[name][1])


@pytest.mark.slow
def test_unavailability_of_many_sends_is_computed_in_time(spark, tmp_path):
    spark.range(200_000).selectExpr(
        "'t' topic",
        "0 partition",
        "if(id = 100000, 'unknown', 'acked') outcome",
        "timestamp_micros(id * 1000) sent_at",
        "timestamp_micros(id * 1000 + if(id < 100000, 500, 800500)) resolved_at",
    ).write.parquet(str(tmp_path / "ledger"))
    row = unavailability(spark.read.parquet(str(tmp_path / "ledger"))).first()
    # From the unknown send at 100.0 to the next ack, of the send at 100.001, 800.5 ms later.
    assert row["unavailability_s"] == pytest.approx(0.8015)


@pytest.mark.slow
def test_a_producer_that_stopped_for_good_is_unavailable_until_the_faults_end(spark, tmp_path):
    """Producer 1 stops at 2 s. Producer 2 sends to the same partition until 8 s."""
    first = ["1/0 to 0: acked at 0 [0-1]", "1/1 to 0: unknown [1-2]"]
    second = [f"2/{i} to 0: acked at {i + 1} [{i}-{i}.1]" for i in range(8)]
    run_dir = _run(tmp_path, *first, *second)
    ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=20)
    lives = metrics(spark, run_dir)
    stopped = metrics(spark, run_dir, stopped=[1], faults_ended_at=ended)
    without_faults = metrics(spark, run_dir, stopped=[1])
    assert [one["duration_s"] for one in (lives, without_faults, stopped)] == [7.1, 7.1, 20]
    # While producer 1 waits, acks of producer 2 end two stretches of 0.9 and 1.0 s.
    waited = [one["unavailability_s"] for one in (lives, without_faults, stopped)]
    assert waited == pytest.approx([1.9, 7.1, 20])
    assert stopped["acked_per_s"] == pytest.approx(9 / 20)


@pytest.mark.parametrize("purged_at", [2, 122], ids=["purged at once", "held until it timed out"])
def test_a_stopped_producer_is_unavailable_equally_long_however_its_client_ends(
    spark, tmp_path, purged_at
):
    """The producer stops at 2 s, with two sends in flight."""
    sends = ["1/0 to 0: acked at 0 [0-1]", f"1/1 to 0: unknown [1-{purged_at}]"]
    run_dir = _run(tmp_path, *sends, f"1/2 to 1: unknown [1.5-{purged_at}]")
    ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=20)
    measured = metrics(spark, run_dir, stopped=[1], faults_ended_at=ended)
    assert measured["duration_s"] == 20
    assert measured["unavailability_s"] == pytest.approx(20)
    assert measured["unacked_partitions"] == ["t-1"]


def test_durations_rates_and_latencies(spark, tmp_path):
    sends = [f"1/{i} to 0: acked at {i} [{i}-{i + (i + 1) / 1000}]" for i in range(100)]
    measured = metrics(
        spark, _run(tmp_path, *sends, "1/100 to 0: failed X [10-10.2]", "1/101 to 0: unknown [9-]")
    )
    assert measured["duration_s"] == pytest.approx(99.1)
    assert measured["acked_per_s"] == pytest.approx(100 / 99.1)
    assert measured["ack_latency_ms"] == {
        "p50": 50.0,
        "p95": 95.0,
        "p99": 99.0,
        "p999": 100.0,
        "max": 100.0,
    }


def test_sends_of_the_probe_do_not_count(spark, tmp_path):
    sends = ["1/0 to 0: acked at 0 [0-1]", "1/1 to 0: acked at 1 [1-2]"]
    probe = "1000000/0 to 0: acked at 2 [50-90]"
    assert metrics(spark, _run(tmp_path / "probed", *sends, probe)) == metrics(
        spark, _run(tmp_path / "alone", *sends)
    )


def test_the_metrics_of_a_run_without_sends_are_0(spark, tmp_path):
    assert metrics(spark, _run(tmp_path)) == {
        "duration_s": 0.0,
        "acked_per_s": 0.0,
        "unavailability_s": 0.0,
        "unavailability_gap_s": 0.5,
        "ack_latency_ms": None,
        "unacked_partitions": [],
        "processing": None,
    }


def test_partitions_with_sends_and_without_acks_are_listed(spark, tmp_path) -> None:
    run_dir = _run(tmp_path, "1/0 to 0: acked at 0", "1/1 to 1: unknown", "1/2 to 0: unknown")
    assert metrics(spark, run_dir)["unacked_partitions"] == ["t-1"]


@pytest.mark.slow
def test_percentiles_of_a_small_run_are_exact_however_its_rows_are_divided(spark):
    rows = spark.range(40_000, numPartitions=8).selectExpr(
        "1L producer",
        "'t' topic",
        "0 partition",
        "'acked' outcome",
        "timestamp_micros(0L) sent_at",
        "timestamp_micros(pmod(id * 7919, 40000) * 1000) resolved_at",
    )
    latency = as_metrics(answers(**metric_questions(rows)))["ack_latency_ms"]
    assert latency == {"p50": 19_999, "p95": 37_999, "p99": 39_599, "p999": 39_959, "max": 39_999}


def test_processing_counts_acked_records_of_each_group_and_their_delay(spark, tmp_path):
    """Sequence 0 is processed by both groups, 1 twice by one, 2 by none, and 3 was not acked."""
    sends = [f"1/{n} to 0: acked at {n} [{n}-{n}.1]" for n in range(3)]
    run_dir = _run(tmp_path, *sends, "1/3 to 0: failed X [3-3.1]")
    effects = [("g", 0, 1.0), ("h", 0, 0.5), ("g", 1, 3.0), ("g", 1, 2.0), ("g", 3, 9.0)]
    rows = [
        {
            "group": group,
            "consumer": 0,
            "topic": "t",
            "partition": 0,
            "offset": n,
            "producer": 1,
            "sequence": n,
            "processed_at": _START + timedelta(seconds=at),
        }
        for group, n, at in effects
    ]
    write_table(run_dir, "effects", rows)
    run = StoredRun(spark=spark, run_dir=run_dir)
    asked = metric_questions(run["ledger"]) | {
        "processing": processing(run["ledger"], run["effects"])
    }
    with small_plans(spark, rows=0):
        found = as_metrics(answers(**asked))["processing"]
    assert (found["once"], found["again"], found["never"]) == (2, 1, 3)
    assert (found["latency_ms"]["p50"], found["latency_ms"]["max"]) == (1000.0, 1000.0)
    with small_plans(spark, rows=0):
        assert as_metrics(answers(**metric_questions(run["ledger"])))["processing"] is None
