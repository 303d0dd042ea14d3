"""Views and queries give the same rows in DuckDB as in Spark, and are read by Trino's grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from ruamel.yaml import YAML

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.files import ArrowFiles
from ackproof_spark.warehouse.dialects import Dialect
from ackproof_spark.warehouse.formats import _NO_ROWS, Format, Tables, _empty_file
from ackproof_spark.warehouse.schemas import COMMENTS, TABLES
from ackproof_spark.warehouse.sql_files import ANALYSES, SCHEMA, queries, view
from ackproof_spark.warehouse.views import script, statements
from unit.spark_analysis.warehouse.conftest import FORMATS

Rows = Sequence[Mapping[str, Any]]


def normal(value: Any) -> Any:
    """Return a value as both clients give it: times in UTC, numbers with twelve digits."""
    match value:
        case bool():
            return value
        case int() | float() | Decimal():
            return float(f"{value:.12g}")
        case datetime():
            return value.replace(tzinfo=None).isoformat()
        case dict():
            return {key: normal(each) for key, each in sorted(value.items())}
    return value


def sorted_rows(rows: Rows) -> list[str]:
    each = ({key: normal(value) for key, value in sorted(row.items())} for row in rows)
    return sorted(json.dumps(row, default=str) for row in each)


def in_duckdb(made: Sequence[str], asked: Mapping[str, str]) -> dict[str, Rows]:
    """Return the answers of a DuckDB with these views."""
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for statement in made:
            engine.execute(statement)
        return {
            name: engine.sql(sql).to_arrow_table().to_pylist(maps_as_pydicts="strict")
            for name, sql in asked.items()
        }


def asked(dialect: Dialect) -> dict[str, str]:
    return {f"{name} query": sql.strip(";\n") for name, sql in queries("", dialect).items()}


#: The stored runs have none of these; sends and reads of one are loaded.
EMPTY = ("availability", "findings", "watch_findings", "watched", "share_groups", "redeliveries")
EMPTY += ("explored_pairs", "coverage")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("loaded", [FORMATS[0]], indirect=True)
def test_every_view_and_query_has_the_same_rows_in_duckdb_as_in_spark(loaded):
    views = {name: f"SELECT * FROM {name}" for name in (*TABLES, *ANALYSES)}
    ours = loaded.queries(views | asked(Dialect.SPARK))
    assert all(ours[name] for name in views if name not in EMPTY)

    def differing(made: Sequence[str]) -> list[str]:
        theirs = in_duckdb(made, views | asked(Dialect.DUCKDB))
        return [name for name in ours if sorted_rows(ours[name]) != sorted_rows(theirs[name])]

    made = list(statements(loaded.tables, schema="", dialect=Dialect.DUCKDB))
    assert not differing(made)
    # A changed view is noticed, and the queries over it.
    changed = [statement.replace("AVG(", "2 * AVG(") for statement in made]
    assert differing(changed) == ["cost", "trend", "cost query", "trend query"]


def warehouse_of(kind: Format, place: Path) -> Tables:
    return Tables(format=kind, storage=ArrowFiles(str(place)))


def empty_tables(place: Path) -> Tables:
    tables = warehouse_of(Format.PARQUET, place)
    for name in TABLES:
        tables.storage.write(f"{SCHEMA}/{name}/{_NO_ROWS}", _empty_file(name))
    return tables


def test_the_panels_of_superset_ask_for_columns_that_exist(tmp_path):
    folder = Path(__file__).parents[4] / "ci" / "templates" / "superset"
    read = YAML(typ="safe").load
    datasets = {each["uuid"]: each for each in map(read, (folder / "datasets").glob("*/*.yaml"))}
    asked = {
        each[
            "table_name"
        ]: f"SELECT {', '.join(column['column_name'] for column in each['columns'])} "
        f"FROM {each['schema']}.{each['table_name']}"
        for each in datasets.values()
    }
    charts = {each["uuid"]: each for each in map(read, (folder / "charts").glob("*.yaml"))}
    for chart in charts.values():
        shown, dataset = chart["params"], datasets[chart["dataset_uuid"]]
        own = {column["column_name"] for column in dataset["columns"]}
        axis = [shown["x_axis"]] if "x_axis" in shown else []
        assert {*shown.get("all_columns", ()), *shown.get("groupby", ()), *axis} <= own
        metrics = shown.get("metrics", [shown["metric"]] if "metric" in shown else [])
        values = [metric["sqlExpression"] for metric in metrics] or ["count(*)"]
        filters = [
            each["sqlExpression"] for each in shown["adhoc_filters"] if "sqlExpression" in each
        ]
        asked[chart["slice_name"]] = (
            f"SELECT {', '.join(values)} FROM {dataset['schema']}.{dataset['table_name']} "
            f"WHERE {' AND '.join(filters) or 'true'}"
        )
    in_duckdb(list(statements(empty_tables(tmp_path), dialect=Dialect.DUCKDB)), asked)
    [dashboard] = map(read, (folder / "dashboards").glob("*.yaml"))
    placed = [part["meta"] for part in dashboard["position"].values() if "meta" in part]
    assert {meta["uuid"] for meta in placed if "uuid" in meta} == charts.keys()


def test_duckdb_shows_the_comments_and_the_published_pages(tmp_path):
    tables = empty_tables(tmp_path)
    made = statements(tables, reports="http://ci's/runs", dialect=Dialect.DUCKDB)
    asked = {
        "views": "SELECT view_name AS name, comment FROM duckdb_views() WHERE NOT internal",
        "columns": "SELECT comment FROM duckdb_columns() WHERE column_name = 'lost_median'",
        "runs": "SELECT sql FROM duckdb_views() WHERE view_name = 'runs'",
    }
    found = in_duckdb(list(made), asked)
    comments = {row["name"]: row["comment"] for row in found["views"]}
    assert comments.keys() == {*TABLES, *ANALYSES}
    assert comments["runs"] == TABLES["runs"].comment
    assert found["columns"] == [{"comment": COMMENTS["lost_median"]}]
    assert "http://ci''s/runs/" in found["runs"][0]["sql"]


#: The functions of Trino that views and queries may call.
AGGREGATES = {"array_agg", "avg", "count", "count_if", "max", "min", "row_number", "sum"}
ARRAYS = {"array_join", "array_sort", "cardinality", "element_at", "map_keys", "transform"}
TRINO_FUNCTIONS = AGGREGATES | ARRAYS | {"concat", "round", "sqrt", "to_unixtime"}


def called(sql: str) -> set[str]:
    """Return the functions that a statement of Trino calls; it is read by sqlglot's grammar."""
    tree = sqlglot.parse_one(sql, read="trino", error_level=sqlglot.ErrorLevel.RAISE)
    assert not list(tree.find_all(sqlglot.exp.Command)), sql
    return set(re.findall(r"\b([a-z_]+)\(", tree.sql("trino").lower())) - SYNTAX


#: Words before a parenthesis that are no functions.
SYNTAX = {"as", "in", "on", "by", "and", "or", "exists", "cast", "try_cast", "coalesce", "nullif"}
SYNTAX |= {"filter", "over", "unnest", "from", "where", "else", "when", "then", "_t"}


def test_what_is_written_for_trino_calls_its_functions_only(tmp_path):
    tables = warehouse_of(Format.DELTA, tmp_path)
    made = list(statements(tables, tables_in="delta.raw", dialect=Dialect.TRINO))
    every = [sql for sql in made if not sql.startswith("COMMENT")]
    every += [sql.strip(";\n") for sql in queries(dialect=Dialect.TRINO).values()]
    assert set().union(*map(called, every)) <= TRINO_FUNCTIONS
    assert "unix_micros" in called(sqlglot.transpile(view("recovery_times"), "spark", "trino")[0])
    assert "percentile_cont" in called(sqlglot.transpile(view("cost"), "spark", "trino")[0])
    assert all("SEMI JOIN" not in sql for sql in every)
    assert any("FROM delta.raw.runs AS d" in sql for sql in every)


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [
        (Dialect.TRINO, Format.DELTA),
        (Dialect.TRINO, Format.PARQUET),
        (Dialect.DUCKDB, Format.DELTA),
        (Dialect.DUCKDB, Format.ICEBERG),
    ],
)
def test_tables_that_an_engine_reads_in_a_catalog_only_are_asked_for(tmp_path, dialect, kind):
    tables = warehouse_of(kind, tmp_path)
    with pytest.raises(WarehouseError, match=rf"{kind} tables of .* --tables-in lake\.ackproof"):
        script(tables, dialect=dialect)
    assert "lake.raw.runs" in script(tables, tables_in="lake.raw", dialect=dialect)
