"""A warehouse of version 4 is read and upgraded in place, and loaded into afterwards."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ackproof_spark.errors import AnalysisError, WarehouseError
from ackproof_spark.warehouse import upgrade as upgrading
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import Loaded, load
from ackproof_spark.warehouse.upgrade import upgrade
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import FORMATS, judged, verdict_of

pytestmark = pytest.mark.spark


def version_4(kind: Format, to: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "data" / f"version-4-{kind}.tar.xz") as tar:
        tar.extractall(to, filter="data")
    return to / kind


@pytest.mark.slow
def test_an_upgraded_warehouse_has_the_rows_of_a_fresh_load(spark, tmp_path, run_dirs):
    """The archive has three runs that ackproof loaded in version 4; two of them are stored here."""
    place = version_4(Format.PARQUET, tmp_path)
    with pytest.raises(WarehouseError, match=r"version 4.*ackproof warehouse upgrade"):
        Warehouse.open(spark, str(place))
    assert upgrade(spark, str(place)) == 4
    assert upgrade(spark, str(place)) is None
    assert not (place / "runs").exists()
    old = Warehouse.open(spark, str(place))

    fresh = Warehouse.create(spark, str(tmp_path / "fresh"), Format.PARQUET)
    runs = [judged(run_dirs[name]) for name in ("two", "file-all")]
    load(fresh, runs)
    ids = ", ".join(f"'{run.run_id}'" for run in runs)
    asked = {
        # version 4 had neither the overrides nor other pages
        "runs": "SELECT * EXCEPT (loaded_at, report)",
        "predictions": "SELECT *",
        "causes": "SELECT *",
        "fault_windows": "SELECT *",
        "lost_stories": "SELECT * EXCEPT (isr, held_by)",
        "metrics": "SELECT *",
        "events": "SELECT *",
    }
    for table, select in asked.items():
        sql = f"{select} FROM {table} WHERE run_id IN ({ids})"
        rows, expected = (sorted(map(str, one.query(sql))) for one in (old, fresh))
        assert rows == expected, table
        assert rows, table
    assert len(old.query("SELECT * FROM runs")) == 3
    third = old.query("SELECT configuration FROM runs WHERE scenario = 'your-configuration'")
    assert sorted(row["configuration"] for row in third) == [
        "acks=all, min.insync.replicas=1",
        "acks=all, min.insync.replicas=2",
    ]
    assert load(old, [judged(run_dirs["all"])]) == {run_dirs["all"].name: Loaded.NEW}
    assert len(old.query("SELECT * FROM runs")) == 4


@pytest.mark.parametrize("kind", FORMATS[1:2])
def test_a_delta_warehouse_that_spark_4_0_wrote_is_upgraded(spark, tmp_path, run_dirs, kind):
    place = version_4(kind, tmp_path)
    assert upgrade(spark, str(place)) == 4
    old = Warehouse.open(spark, str(place))
    [first] = old.query("SELECT * FROM runs")
    assert first["lost"] == len(old.query("SELECT * FROM anomalies")) > 0
    assert len(old.query("SELECT * FROM sends")) == 720
    load(old, [judged(run_dirs["file-all"])])
    assert len(old.query("SELECT * FROM runs")) == 2


@pytest.mark.slow
def test_an_interrupted_upgrade_is_repeated(spark, tmp_path, run_dirs, monkeypatch):
    place = version_4(Format.PARQUET, tmp_path)
    copy = upgrading._copy

    def fails(*arguments: object) -> None:
        copy(*arguments)
        raise AnalysisError("the disk is gone")

    monkeypatch.setattr(upgrading, "_copy", fails)
    with pytest.raises(AnalysisError, match="the disk is gone"):
        upgrade(spark, str(place))
    monkeypatch.setattr(upgrading, "_copy", copy)
    assert upgrade(spark, str(place)) == 4
    runs = Warehouse.open(spark, str(place)).query("SELECT run_id, lost FROM runs")
    assert len(runs) == 3
    lost = {row["run_id"]: row["lost"] for row in runs}
    verdict = verdict_of(run_dirs["two"])
    assert lost[verdict.run_id] == verdict.observed["lost"]
