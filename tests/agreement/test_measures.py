"""Availability and quantiles are the same number wherever a stored run shows them.

Each is computed here once more from the ledger, in plain Python, by its definition.
"""

from __future__ import annotations

import tarfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.comparison.store import MEASURES, measures
from ackproof.comparison.summary import _spread
from ackproof.judgement.expectations import check_expectations
from ackproof.judgement.overview.timelines import timelines
from ackproof.report import formatting as fmt
from ackproof.report import openmetrics, wording
from ackproof.runs.directory import read_verdict
from ackproof.runs.verdict import Metrics, Verdict
from ackproof.scenario.model import Expect
from ackproof.warehouse.rows import read_runs
from ackproof_spark.by_time import Grouping
from ackproof_spark.metrics import UNAVAILABILITY_GAP_S, as_metrics, metric_questions
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.small_data import answers, small_plans
from ackproof_spark.tables import LEDGER, LOCATION, PROBE_PRODUCERS, READS
from ackproof_spark.warehouse.dialects import Dialect, translated
from ackproof_spark.warehouse.formats import frame
from ackproof_spark.warehouse.sql_files import view
from ackproof_spark.warehouse.timelines import per_second

RUNS = Path(__file__).parents[1] / "unit/spark_analysis/warehouse/data/runs.tar.xz"
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}

Sends = list[dict[str, Any]]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose leader was killed, with acks=all: it has an outage."""
    folder = tmp_path_factory.mktemp("runs")
    with tarfile.open(RUNS) as tar:
        tar.extractall(folder, filter="data")
    [found] = folder.glob("*Z-acks-acks-all*/")
    return found


@pytest.fixture(scope="module")
def verdict(run_dir: Path) -> Verdict:
    return read_verdict(run_dir)


@pytest.fixture(scope="module")
def sends(run_dir: Path) -> Sends:
    table = pq.read_table(run_dir / LOCATION["ledger"], schema=LEDGER)
    return [row for row in table.to_pylist() if row["producer"] < PROBE_PRODUCERS]


def latencies(sends: Sends) -> list[float]:
    """Return the times from send to ack in milliseconds, sorted."""
    acked = [row for row in sends if row["outcome"] == "acked"]
    micros = timedelta(microseconds=1)
    return sorted((row["resolved_at"] - row["sent_at"]) // micros / 1000 for row in acked)


def seconds(start: datetime, stop: datetime) -> float:
    return (stop - start).total_seconds()


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value of the nearest rank."""
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def unavailable_s(sends: Sends) -> float:
    """Return the seconds with a send in flight and without an ack, of the worst partition."""
    by_partition = defaultdict(list)
    for row in sends:
        by_partition[row["topic"], row["partition"]].append(row)
    return max(map(_of_partition, by_partition.values()))


def _of_partition(sends: Sends) -> float:
    acks = sorted(row["resolved_at"] for row in sends if row["outcome"] == "acked")
    by_end = sorted((row["resolved_at"] or row["sent_at"], row["sent_at"]) for row in sends)
    first_from: list[datetime] = []
    stretches = []
    for _, sent in reversed(by_end):
        first_from.append(min(sent, first_from[-1]) if first_from else sent)
    first_from.reverse()
    ends = [end for end, _ in by_end]
    for before, after in zip([None, *acks], [*acks, None], strict=True):
        later = 0 if before is None else bisect_right(ends, before)
        if later < len(ends):
            start = first_from[later] if before is None else max(before, first_from[later])
            stretches.append(seconds(start, after or ends[-1]))
    return sum(each for each in stretches if each > UNAVAILABILITY_GAP_S)


@pytest.mark.spark
def test_the_comparison_measures_what_the_definitions_give(
    spark: Any, run_dir: Path, sends: Sends
) -> None:
    with small_plans(spark, rows=0):
        measured = answers(**metric_questions(StoredRun(spark=spark, run_dir=run_dir)["ledger"]))
    metrics, ordered = Metrics(**as_metrics(measured)), latencies(sends)
    assert metrics.ack_latency_ms is not None
    found = metrics.ack_latency_ms.model_dump()
    assert found == {
        name: pytest.approx(quantile(ordered, share)) for name, share in QUANTILES.items()
    }
    assert metrics.unavailability_s == pytest.approx(unavailable_s(sends), abs=1e-6)
    assert metrics.unavailability_s > 3, "it has an outage"
    last = max(row["resolved_at"] or row["sent_at"] for row in sends)
    whole = seconds(min(row["sent_at"] for row in sends), last)
    assert metrics.availability == pytest.approx(1 - unavailable_s(sends) / whole)


def test_every_output_has_the_numbers_of_the_verdict(run_dir: Path, verdict: Verdict) -> None:
    metrics = verdict.metrics
    assert metrics.ack_latency_ms is not None
    p99, share = metrics.ack_latency_ms.p99, metrics.availability
    assert share is not None
    # the comparison
    trial = measures(verdict)
    assert MEASURES["unavailability_s"](trial) == metrics.unavailability_s
    assert MEASURES["ack_latency_p99_ms"](trial) == p99
    # the warehouse, and its view in DuckDB
    [row] = read_runs([run_dir])
    assert (row.run["availability"], row.run["ack_latency_p99_ms"]) == (share, p99)
    cost = over([row.run], "cost")
    assert (cost["availability"], cost["ack_latency_p99_ms"]) == (share, p99)
    assert cost["unavailability_s_worst"] == metrics.unavailability_s
    # the expectation of a scenario
    [expected] = [
        each
        for each in check_expectations(Expect(availability=">= 50%"), verdict.observed, metrics)
        if each.what == "availability"
    ]
    assert expected.observed == f"{100 * share:.2f} %"
    # metrics for Prometheus
    gauges = openmetrics.render([(run_dir, verdict)])
    values = {line.split()[-1] for line in gauges.splitlines() if 'quantile="0.99"' in line}
    assert values == {str(p99 / 1000)}
    assert f" {metrics.unavailability_s}\n" in gauges
    # page and terminal
    assert wording.unavailable(verdict) == fmt.seconds(metrics.unavailability_s)
    assert wording.latencies(verdict)["p99"] == fmt.duration(p99)


def over(runs: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a view of the warehouse over these runs, in DuckDB."""
    runs = pa.Table.from_pylist([{**run, "settings": None, "observed": None} for run in runs])
    with duckdb.connect() as engine:
        engine.register("runs", runs)
        rows = engine.sql(translated(view(name), Dialect.DUCKDB)).to_arrow_table().to_pylist()
    return dict(rows[0])


def test_the_median_over_runs_is_that_of_the_comparison(run_dir: Path) -> None:
    [row] = read_runs([run_dir])
    values = [3.0, 10.0, 4.0, 7.5]
    spread = _spread(values)
    assert spread is not None
    runs = [{**row.run, "ack_latency_p99_ms": value} for value in values]
    assert over(runs, "cost")["ack_latency_p99_ms"] == spread.median == 5.75
    assert over(runs[:3], "cost")["ack_latency_p99_ms"] == 4


def test_the_page_has_quantiles_up_to_one_percent(run_dir: Path, sends: Sends) -> None:
    def ask(grouping: Grouping) -> pa.Table | None:
        if grouping.table != "ledger":
            return None
        table = pq.read_table(run_dir / LOCATION["ledger"], schema=LEDGER)
        return grouping.answer(table.select(list(grouping.columns)).to_batches())

    first = min(row["sent_at"] for row in sends)
    found = timelines(
        ask,
        origin=round(first.timestamp() * 1e6),
        seconds=max(seconds(first, row["sent_at"]) for row in sends),
        sends=len(sends),
        lost_at=np.array([], dtype=np.int64),
    )[0]
    by_bin = defaultdict(list)
    for row in sends:
        by_bin[int(seconds(first, row["sent_at"]) * 1e6) // round(found.width * 1e6)].append(row)
    compared = 0
    for number, rows in by_bin.items():
        if ordered := latencies(rows):
            assert found.p50[number] == pytest.approx(quantile(ordered, 0.5), rel=0.011)
            assert found.p99[number] == pytest.approx(quantile(ordered, 0.99), rel=0.011)
            compared += 1
    assert compared > 50


@pytest.mark.slow
@pytest.mark.spark
def test_the_warehouse_has_the_quantiles_of_each_second(
    spark: Any, run_dir: Path, sends: Sends
) -> None:
    ledger = StoredRun(spark=spark, run_dir=run_dir)["ledger"]
    with small_plans(spark, rows=0):
        found = per_second(ledger, frame(spark, [], READS)).collect()
    by_second = defaultdict(list)
    for row in sends:
        by_second[row["sent_at"].replace(microsecond=0, tzinfo=None)].append(row)
    compared = 0
    for row in found:
        if ordered := latencies(by_second[row["occurred_at"]]):
            assert row["latency_p50_ms"] == quantile(ordered, 0.5)
            assert row["latency_p99_ms"] == quantile(ordered, 0.99)
            compared += 1
    assert compared > 10
