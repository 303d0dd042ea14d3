"""The columns of a warehouse change only with its version.

After a change, raise `WAREHOUSE_VERSION`, write what `upgrade` does with the version before, and
record the digest that the test reports.
"""

from __future__ import annotations

from ackproof_spark.warehouse.configuration import digest
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

RECORDED = {5: "4727f6bdadc0e4b217a892f539310f2febc60846914550550f9ac81fb1e76b08"}


def test_the_columns_are_those_of_the_version():
    columns = {
        name: {field.name: str(field.type) for field in table.schema}
        for name, table in TABLES.items()
    }
    assert digest(columns) == RECORDED[WAREHOUSE_VERSION], __doc__


def test_every_table_begins_with_the_same_columns():
    assert {tuple(table.schema.names[:4]) for table in TABLES.values()} == {
        ("run_date", "schema_version", "run_id", "load_id")
    }
