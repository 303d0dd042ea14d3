"""The columns of a warehouse change only with its version.

After a change, raise `WAREHOUSE_VERSION` and record the digest that the test reports.
"""

from __future__ import annotations

from ackproof_spark.warehouse.configuration import digest
from ackproof_spark.warehouse.schemas import COMMENTS, TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.sql_files import ANALYSES, view
from ackproof_spark.warehouse.views import columns_of

RECORDED = {9: "30f8e652f1b8ee91537c3b360a9c0145a0b877029ec0f143ab40cfe5dd0838cc"}


def test_the_columns_are_those_of_the_version():
    columns = {
        name: {field.name: str(field.type) for field in table.schema}
        for name, table in TABLES.items()
    }
    assert digest(columns) == RECORDED[WAREHOUSE_VERSION], __doc__


def test_every_table_of_runs_begins_with_the_same_columns():
    begins = {name: tuple(table.schema.names[:4]) for name, table in TABLES.items()}
    assert begins.pop("watch_findings") == ("run_date", "schema_version", "run_id", "watch")
    assert begins.pop("explored_pairs") == ("run_date", "schema_version", "run_id", "scenario")
    assert {*begins.values()} == {("run_date", "schema_version", "run_id", "load_id")}


def test_every_column_of_a_view_has_a_comment():
    columns = {name: list(columns_of(view(name))) for name in ANALYSES}
    assert columns["loss_causes"][:5] == [
        *("scenario", "configuration", "kafka_version", "case_id", "title")
    ]
    assert {one for own in columns.values() for one in own} <= set(COMMENTS)
    assert COMMENTS["acked"] == "Sends that were acknowledged without error"  # in all of `runs`
