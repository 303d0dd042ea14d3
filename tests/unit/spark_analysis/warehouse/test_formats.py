"""Writing one table in each format: a run is replaced by itself, other runs stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackproof_spark.warehouse.formats import Tables, frame
from unit.spark_analysis.warehouse.conftest import FORMATS

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("run_id", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_is_replaced_by_itself_and_other_runs_stay(spark, tmp_path, kind):
    tables = Tables(format=kind, address=tmp_path.as_uri())
    for key, value in tables.settings.items():
        spark.conf.set(key, value)

    def stored() -> list[tuple[str, int]]:
        found = spark.sql(f"SELECT run_id, n FROM {tables.sql_name('t')}").collect()
        return sorted((row["run_id"], row["n"]) for row in found)

    def write(**numbers: list[int]) -> None:
        each = [{"run_id": run, "n": n} for run, ns in numbers.items() for n in ns]
        tables.replace_runs("t", frame(spark, each, SCHEMA))

    tables.create("t", frame(spark, [], SCHEMA))
    assert stored() == []
    write(a=[1, 2], b=[3])
    once = stored()
    assert once == [("a", 1), ("a", 2), ("b", 3)]
    write(a=[1, 2])
    assert stored() == once
    write(b=[4])
    assert stored() == [("a", 1), ("a", 2), ("b", 4)]
