"""Spark and the pass by offset, which reads without Spark, read the same files at one address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import compare
from ackproof_spark.matching.row_groups import TakeGeneralPath, read_layout
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.warehouse.storage import ArrowFiles
from spark_histories import parse, write_run

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
