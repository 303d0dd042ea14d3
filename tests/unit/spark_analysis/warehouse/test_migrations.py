"""An older warehouse is brought up; a newer or damaged one is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ackproof_spark.errors import WarehouseError
from ackproof_spark.warehouse import migrations
from ackproof_spark.warehouse.formats import Format, append_schema, source
from ackproof_spark.warehouse.schemas import WAREHOUSE_VERSION
from ackproof_spark.warehouse.warehouse import Warehouse

pytestmark = pytest.mark.spark

#: What version 1 of `runs` lacked.
NEW_IN_2 = ("commit", "availability")


def path_of(warehouse: Warehouse) -> Path:
    return Path(warehouse.storage.address.removeprefix("file:"))


@pytest.fixture
def version_1(loaded, copied) -> Warehouse:
    """A warehouse as version 1 left it."""
    warehouse = copied(loaded)
    place = path_of(warehouse)
    old = (
        warehouse.spark.sql(f"SELECT * FROM {source(warehouse.storage, warehouse.format, 'runs')}")
        .drop(*NEW_IN_2)
        .selectExpr("1 AS schema_version", "* EXCEPT (schema_version)")
        .localCheckpoint()
    )
    shutil.rmtree(place / "runs")
    if warehouse.format is Format.PARQUET:
        old.write.partitionBy("batch").parquet(str(place / "runs"))
        append_schema(warehouse.storage, warehouse.format, "runs", old.drop("batch").limit(0))
    else:
        old.write.format("delta").save(str(place / "runs"))
    head = {"format": warehouse.format.value, "version": 1}
    (place / "warehouse.json").write_text(json.dumps(head))
    (place / ".warehouse.json.crc").unlink(missing_ok=True)
    return warehouse


def check_current(warehouse: Warehouse, place: str) -> None:
    opened = Warehouse.open(warehouse.spark, place)
    rows = opened.query("SELECT schema_version, `commit`, availability, lost FROM runs")
    assert len(rows) == 3
    assert {(row["schema_version"], row["commit"]) for row in rows} == {(2, None)}
    assert rows[0]["availability"] == pytest.approx(1 - 9.25 / 24, abs=0.2)
    assert all(0 < row["availability"] < 1 for row in rows)
    assert sorted(row.name for row in path_of(warehouse).iterdir() if "migrating" in row.name) == []


def test_version_1_is_brought_up_and_is_refused_before(version_1):
    place = str(path_of(version_1))
    with pytest.raises(WarehouseError, match=r"version 1.*ackproof warehouse migrate"):
        Warehouse.open(version_1.spark, place)
    assert migrations.migrate(version_1.spark, place) == (1, WAREHOUSE_VERSION)
    check_current(version_1, place)
    assert migrations.migrate(version_1.spark, place) == (WAREHOUSE_VERSION, WAREHOUSE_VERSION)
    check_current(version_1, place)


@pytest.mark.parametrize("moment", ["_write_aside", "_swap"])
def test_a_migration_that_died_is_finished_by_the_next(version_1, monkeypatch, moment):
    place = str(path_of(version_1))
    real = getattr(migrations, moment)

    def dies(*arguments):
        if moment == "_write_aside":
            real(*arguments)
        else:
            version_1.storage.delete("runs")  # half of a swap
        raise KeyboardInterrupt

    monkeypatch.setattr(migrations, moment, dies)
    with pytest.raises(KeyboardInterrupt):
        migrations.migrate(version_1.spark, place)
    with pytest.raises(WarehouseError, match="migrate"):
        Warehouse.open(version_1.spark, place)
    monkeypatch.setattr(migrations, moment, real)
    migrations.migrate(version_1.spark, place)
    check_current(version_1, place)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('{"format": "delta", "version": 99}', r"version 99.*versions 1 to 2.*newer"),
        ('{"format": "csv", "version": 1}', "is damaged.*csv"),
        ("{", "is damaged"),
    ],
)
def test_a_newer_or_damaged_warehouse_is_refused(spark, tmp_path, head, says):
    (tmp_path / "warehouse.json").write_text(head)
    with pytest.raises(WarehouseError, match=says):
        Warehouse.open(spark, str(tmp_path))
    with pytest.raises(WarehouseError, match=says):
        migrations.migrate(spark, str(tmp_path))


def test_what_is_no_warehouse_is_refused(spark, tmp_path):
    with pytest.raises(WarehouseError, match=r"not a warehouse.*ackproof warehouse load"):
        Warehouse.open(spark, str(tmp_path))


def test_a_warehouse_keeps_its_format(spark, warehouse):
    other = Format.PARQUET if warehouse.format is Format.DELTA else Format.DELTA
    with pytest.raises(WarehouseError, match=f"format {warehouse.format}, not {other}"):
        Warehouse.create(spark, str(path_of(warehouse)), other)
