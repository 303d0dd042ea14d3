"""The lane of the probe shows a planted outage, and the page its steps."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judgement.availability import attempts, probe_metrics, steps
from ackproof.report.data.run import read_run
from ackproof.report.html import write_html
from ackproof.report.plots.availability import availability
from ackproof.runs.directory import read_verdict, table_rows, write_model
from ackproof_spark.tables import LOCATION, PROBE
from unit.harness.report import synthetic

DOWN, UP = 10.0, 20.0


@pytest.fixture(scope="module")
def probed(tmp_path_factory, acks_all) -> Path:
    directory = tmp_path_factory.mktemp("probed") / "run"
    shutil.copytree(acks_all.directory, directory)
    rows = []
    for tick in range(400):
        for action in ("read", "write"):
            answers = action == "read" or not DOWN <= tick / 10 < UP
            at = synthetic.at(tick / 10)
            rows.append(
                {
                    "schema_version": 1,
                    "run_id": "made-up",
                    "topic": "orders",
                    "partition": 0,
                    "action": action,
                    "at": at,
                    "answered_at": at + timedelta(milliseconds=5) if answers else None,
                    "ok": answers,
                }
            )
    place = directory / LOCATION["probe"]
    place.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=PROBE), place / "part.parquet")
    return directory


def test_an_outage_of_writing_is_drawn_in_its_track(probed: Path) -> None:
    figure = availability(read_run(probed))
    assert figure is not None
    available, unavailable = figure.traces
    assert (unavailable["base"], unavailable["x"]) == ([DOWN], [pytest.approx(UP - DOWN, abs=0.01)])
    assert len(available["base"]) == 3  # reading all the time, writing before and after
    assert figure.spoken == "orders-0 cannot be written from 10.0 to 20.0 s."


def test_a_run_without_a_probe_has_no_lane(acks_all) -> None:
    assert availability(read_run(acks_all.directory)) is None


def test_the_page_has_the_lane_and_the_steps(probed: Path, tmp_path: Path) -> None:
    verdict = read_verdict(probed)
    measured = attempts(table_rows(probed, "probe"))
    metrics = verdict.metrics.model_copy(update={"probe": probe_metrics(measured, writes={})})
    told = {"metrics": metrics, "steps": steps(measured, verdict.faults)}
    write_model(probed / "verdict.json", verdict.model_copy(update=told))
    write_html(tmp_path / "page.html", [probed], title="probed")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Readable and writable, step by step" in page
    assert "<dt>readable</dt><dd>100.00 %</dd>" in page
    assert '"run-1-availability"' in page
