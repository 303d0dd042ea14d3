"""Warehouses with a few small runs, in each format that this machine has."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from ackproof.report import warehouse_rows as rows
from ackproof.runs.verdict import Verdict
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import JudgedRun
from ackproof_spark.warehouse.warehouse import Warehouse
from support import synthetic_run as synthetic

FORMATS = [
    pytest.param(Format.PARQUET, id="parquet"),
    *(
        pytest.param(
            kind,
            id=kind.value,
            marks=[
                pytest.mark.slow,
                pytest.mark.table_format,
                pytest.mark.skipif(not rows.has_jars(kind), reason=f"no jars of {kind}"),
            ],
        )
        for kind in (Format.DELTA, Format.ICEBERG)
    ),
]

#: A run of half a minute with 720 sends.
SMALL = {"seconds": 24.0, "rate": 30}


@pytest.fixture(scope="session")
def run_dirs(tmp_path_factory) -> dict[str, Path]:
    """Three judged runs of two configurations, a day apart."""
    root = tmp_path_factory.mktemp("runs")
    made = {
        name: make_run(root / name, acks=acks, day=day)
        for day, (name, acks) in enumerate([("one", "1"), ("two", "1"), ("all", "all")], start=1)
    }
    for name in ("one", "two"):
        synthetic.explain(made[name])
    (made["one"] / "report.html").touch()
    return made


def make_run(directory: Path, *, acks: str = "1", day: int = 1, **observed: int) -> Path:
    """Make a run that started on that day of November, with these counts changed in its verdict."""
    start = synthetic.START
    synthetic.START = datetime.datetime(2026, 11, day, 12, tzinfo=datetime.UTC)
    try:
        options = synthetic.Options(acks=acks, seed=day, **SMALL)
        synthetic.make(directory, options, name=f"acks={acks}")
    finally:
        synthetic.START = start
    change_verdict(directory, **observed)
    return directory


def change_verdict(directory: Path, **observed: int) -> None:
    path = directory / "verdict.json"
    verdict = json.loads(path.read_text())
    verdict["observed"] |= observed
    path.write_text(json.dumps(verdict))


def verdict_of(directory: Path) -> Verdict:
    return rows.read_verdict(directory)


def judged(directory: Path, **options: str) -> JudgedRun:
    return rows.read_runs(
        [directory],
        commit=options.get("commit"),
        comparison=options.get("comparison"),
        reports=options.get("reports"),
    )[0]


@pytest.fixture(params=FORMATS)
def warehouse(request, spark, tmp_path) -> Warehouse:
    """An empty warehouse."""
    return Warehouse.create(spark, str(tmp_path / "warehouse"), request.param)


@pytest.fixture(scope="session", params=FORMATS)
def loaded(request, spark, tmp_path_factory, run_dirs) -> Warehouse:
    """A warehouse with all of `run_dirs`, the sends and reads of one of them."""
    from ackproof_spark.warehouse.load import load

    place = tmp_path_factory.mktemp("loaded") / "warehouse"
    filled = Warehouse.create(spark, str(place), request.param)
    runs = {
        name: judged(directory, commit=f"commit-{name}", comparison="demo")
        for name, directory in run_dirs.items()
    }
    load(filled, [runs["one"]], sends=True, reads=True)
    load(filled, [runs["two"], runs["all"]])
    return filled
