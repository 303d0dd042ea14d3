"""Spark and the pass by offset, which reads without Spark, read the same files at one address."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ackproof as ap
from ackproof.runs import directory as runs
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import compare
from ackproof_spark.matching.row_groups import TakeGeneralPath, read_layout
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.files import ArrowFiles
from ackproof_spark.spark.functions import SparkSession
from command_line import captured
from spark_histories import parse, write_run
from support.run_directories import RunDirectory, store

pytestmark = pytest.mark.spark


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Let Spark have another default file system than the local disk: its `/` is this folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    settings = {
        "fs.defaultFS": "viewfs://elsewhere/",
        "fs.viewfs.mounttable.elsewhere.linkSlash": folder.as_uri(),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield folder
    for key in settings:
        spark.conf.unset(key)


def write(run_dir: Path, *, sends: int) -> None:
    history = {
        "sends": [f"1/{n} to 0: acked at {n}" for n in range(sends)],
        "log": [f"0@{n}: 1/{n}" for n in range(sends - 1)],
        "ends": [f"0: 0-{sends}"],
    }
    write_run(run_dir, {"orders": parse(history)})


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("", "run"),
        ("file:", "a%20run"),
        ("file://", "a run"),
        ("", "a [0-9] {run} *?"),
        ("", r"a\run"),
    ],
)
def test_both_readers_of_a_run_read_the_same_files(
    spark: SparkSession, elsewhere: Path, tmp_path: Path, prefix: str, name: str
) -> None:
    run_dir = tmp_path / name
    write(run_dir, sends=5)
    write(elsewhere / run_dir.relative_to("/"), sends=3)  # the same path in the other file system
    tables, layout = (
        RunTables.read(spark, f"{prefix}{run_dir}"),
        read_layout(spark, f"{prefix}{run_dir}"),
    )
    assert sum(group.rows for group in layout.sends) == tables.ledger.count() == 5
    assert sum(group.rows for group in layout.records) == tables.final_log.count() == 4


def test_the_pass_by_offset_follows_a_mount(spark: SparkSession, tmp_path: Path) -> None:
    mount = "fs.viewfs.mounttable.all.link./lake"
    spark.conf.set(mount, tmp_path.as_uri())
    write(tmp_path / "run", sends=3)
    try:
        mounted = compare(spark, "viewfs://all/lake/run")
        assert (mounted.path, mounted.acked, mounted.counts[Anomaly.LOST]) == ("by offset", 3, 1)
        with pytest.raises(TakeGeneralPath, match=r"cannot read viewfs://all/lake/no: .*/no"):
            read_layout(spark, "viewfs://all/lake/no")
        with pytest.raises(TakeGeneralPath, match='No FileSystem for scheme "nowhere"'):
            read_layout(spark, "nowhere://lake/run")
    finally:
        spark.conf.unset(mount)


@pytest.mark.parametrize("name", ["a warehouse", "a%20warehouse", r"a\warehouse"])
def test_both_readers_of_a_warehouse_read_the_same_files(
    spark: SparkSession, elsewhere: Path, tmp_path: Path, name: str
) -> None:
    storage = ArrowFiles(str(tmp_path / name))
    spark.range(3).write.parquet(f"{storage.address}/numbers")
    assert [one for one in storage.files("numbers") if one.endswith(".parquet")]
    assert not list(elsewhere.iterdir())


LOST = {
    "sends": [f"1/{n} to 0: acked at {n}" for n in range(5)],
    "log": [f"0@{n}: 1/{n}" for n in range(4)],
    "ends": ["0: 0-5"],
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that Spark also has at `viewfs://judged/lake`, with runs that cannot be judged."""
    mount = "fs.viewfs.mounttable.judged.link./lake"
    folder = tmp_path_factory.mktemp("lake")
    cut = RunDirectory(path=store(folder / "cut", parse(LOST))).seal()
    os.truncate(cut.file("ledger", "producer-0"), 20)
    store(folder / "unsealed", parse(LOST))
    spark.conf.set(mount, folder.as_uri())
    yield folder
    spark.conf.unset(mount)


def checked(place: Path | str) -> tuple[int, Any]:
    done = captured("check", place, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_a_run_is_judged_at_its_address_and_in_the_session_of_the_caller(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    stored = RunDirectory(path=store(lake / "run", parse(LOST))).seal().path
    shutil.copytree(stored, tmp_path / "run")
    code, there = checked("viewfs://judged/lake/run")
    assert (code, there["observed"]["lost"], there["compared"]) == (1, 1, "by offset")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        verdict = ap.check(f"file:{tmp_path}/run", spark=spark)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert verdict.model_dump(mode="json") == there
    here = {path.name for path in (tmp_path / "run").iterdir()}
    assert {path.name for path in stored.iterdir() if path.name[0] != "."} == here
    assert runs.read_verdict(stored).model_dump(mode="json") == there
    assert captured("report", "viewfs://judged/lake/run").returncode == 0
    assert "html" in (stored / "report.html").read_text()


def test_an_address_without_a_run_is_an_error_in_the_session_of_the_caller(
    spark: SparkSession, lake: Path
) -> None:
    with pytest.raises(ap.AckproofError, match="no such run directory"):
        ap.check("viewfs://judged/lake/no", spark=spark)


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        ("viewfs://judged/lake/no", 2, "viewfs://judged/lake/no: no such run directory"),
        ("viewfs://judged/lake/unsealed", 2, "unsealed has no manifest.json"),
        ("viewfs://judged/lake/cut", 2, "lake/cut/ledger/producer-0.parquet is damaged"),
        ("nowhere://lake/run", 4, "Spark has no file system of this scheme"),
        ("gs://lake/run", 4, "com.google.cloud.bigdataoss:gcs-connector"),
    ],
)
def test_an_address_without_a_run_is_one_sentence(
    lake: Path, place: str, code: int, message: str
) -> None:
    done = captured("check", place)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert "/ackproof-" not in done.stderr
