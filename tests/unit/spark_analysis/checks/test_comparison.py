"""A comparison counts, shows and stores the anomalies, and rejects runs without a table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof_spark import job
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import SHOWN_PER_ANOMALY, compare
from ackproof_spark.errors import AnalysisError
from ackproof_spark.matching.row_groups import Sizing
from ackproof_spark.tables import ANOMALIES, LOCATION
from spark_histories import (
    RUN_ID,
    History,
    parse,
    write_run,
)

pytestmark = pytest.mark.spark


def _loses(count: int) -> History:
    sends = [f"1/{i} to 0: acked at {i} [{i}-{i}.5]" for i in range(count)]
    return parse({"sends": sends, "ends": ["0: 0-0"], "windows": ["1: 10-12"]})


def test_all_are_counted_and_those_within_a_window_shown_first(spark, tmp_path):
    write_run(tmp_path, {"t": _loses(20)})
    result = compare(spark, tmp_path)
    assert result.counts == {**dict.fromkeys(Anomaly, 0), Anomaly.LOST: 20}
    assert [row["sequence"] for row in result.shown] == [10, 11, 0, 1, 2, 3, 4, 5]
    assert len(result.shown) == SHOWN_PER_ANOMALY
    assert set(result.shown[0]) == set(ANOMALIES.names)
    assert _stored(tmp_path) == [RUN_ID] * 20
    assert compare(spark, tmp_path) == result, "a second comparison"


def _stored(run_dir: Path) -> list[str]:
    """Return the run of each stored row; the table has the declared types, also without rows."""
    stored = pq.read_table(run_dir / LOCATION["anomalies"])
    assert [(f.name, f.type) for f in stored.schema] == [(f.name, f.type) for f in ANOMALIES]
    return stored["run_id"].to_pylist()


def test_a_run_without_sends_has_no_anomalies(spark, tmp_path):
    write_run(tmp_path, {"t": parse({})})
    result = compare(spark, tmp_path)
    assert _stored(tmp_path) == []
    assert (result.sent, result.acked, result.failed, result.unknown) == (0, 0, 0, 0)
    assert set(result.counts.values()) == {0}
    assert result.shown == []


def test_outcomes_are_counted(spark, tmp_path):
    sends = ["1/0 to 0: acked at 0", "1/1 to 0: failed X", "1/2 to 0: unknown", "1/3 to 0: unknown"]
    write_run(tmp_path, {"t": parse({"sends": sends, "log": ["0@0: 1/0"], "ends": ["0: 0-1"]})})
    result = compare(spark, tmp_path)
    assert (result.sent, result.acked, result.failed, result.unknown) == (4, 1, 1, 2)


@pytest.mark.parametrize(
    ("sizing", "path"),
    [
        pytest.param(Sizing(placed=2.0), "general: 0 of 2 sends have no offset", id="general"),
        pytest.param(Sizing(), "by offset", id="by offset", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_is_no_part_of_a_table_is_not_read(spark, tmp_path, sizing, path):
    sends = ["1/0 to 0: acked at 0", "1/1 to 0: acked at 1"]
    history = {"sends": sends, "log": ["0@0: 1/0", "0@1: 1/1"], "ends": ["0: 0-2"]}
    write_run(tmp_path, {"t": parse(history)})
    (part,) = (tmp_path / LOCATION["final_log"]).iterdir()
    whole = pq.read_table(part)
    for name in ("part-1.parquet._COPYING_", "part-1", "_part-1.parquet"):
        pq.write_table(whole.slice(1), part.with_name(name))
    pq.write_table(whole.slice(0, 1), part)
    result = compare(spark, tmp_path, sizing=sizing)
    assert result.counts[Anomaly.LOST] == 1
    assert result.path == path


@pytest.mark.parametrize(("lost", "most"), [(0, 0), pytest.param(20, 12, marks=pytest.mark.slow)])
def test_a_small_run_needs_few_jobs(spark, tmp_path, lost, most):
    sends = [f"1/{i} to 0: acked at {i}" for i in range(40)]
    log = [f"0@{i}: 1/{i}" for i in range(40 - lost)]
    write_run(tmp_path, {"t": parse({"sends": sends, "log": log, "ends": [f"0: 0-{len(log)}"]})})
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    assert compare(spark, tmp_path).counts[Anomaly.LOST] == lost
    assert len(tracker.getJobIdsForGroup(None)) - before <= most


def test_a_missing_table_is_named(spark, tmp_path):
    write_run(tmp_path, {"t": parse({})}, log=False)
    with pytest.raises(AnalysisError, match=f"{tmp_path} has no table final_log"):
        compare(spark, tmp_path)


@pytest.mark.slow
def test_the_job_prints_counts_and_writes_to_its_output(spark, tmp_path, capsys):
    run_dir, output = tmp_path / "run", tmp_path / "output"
    run_dir.mkdir()
    write_run(run_dir, {"t": _loses(2)})
    assert job.main(["diff", "--input", str(run_dir), "--output", str(output)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {
        "sent": 2,
        "acked": 2,
        "failed": 0,
        "unknown": 0,
        "aborted": 0,
        **{anomaly.value: 0 for anomaly in Anomaly},
        "lost": 2,
        "compared": "by offset",
    }
    assert pq.read_table(output / LOCATION["anomalies"]).num_rows == 2
    assert not (run_dir / LOCATION["anomalies"]).exists()


def test_the_job_names_a_missing_table(spark, tmp_path, capsys):
    assert job.main(["diff", "--input", str(tmp_path / "nowhere")]) == 2
    assert "has no table ledger" in capsys.readouterr().err


@pytest.mark.slow
def test_any_number_of_sends_may_have_been_acked_at_one_offset(spark, tmp_path) -> None:
    # A join of all pairs would take too long.
    sends = [f"1/{i} to 0: acked at 5" for i in range(20_000)]
    write_run(tmp_path, {"t": parse({"sends": sends, "ends": ["0: 0-6"]})})
    assert compare(spark, tmp_path).counts[Anomaly.INCONSISTENT] == 20_000
