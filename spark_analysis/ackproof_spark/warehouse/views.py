"""The views of a warehouse, by which a plain Spark reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ackproof_spark.errors import WarehouseError
from ackproof_spark.warehouse.dialects import Dialect, literal, translated
from ackproof_spark.warehouse.formats import Format, Tables, text
from ackproof_spark.warehouse.schemas import COMMENTS, LOAD_ID, TABLES, comment_of
from ackproof_spark.warehouse.sql_files import ANALYSES, SCHEMA, view

_HEAD = """\
-- The views of the ackproof warehouse {address}
-- Written by `ackproof warehouse views`; {runs_it}.
"""

_RUNS_IT = {
    Dialect.SPARK: "a plain Spark with the format's jars runs it",
    Dialect.DUCKDB: "DuckDB runs it",
    Dialect.TRINO: "Trino runs it, where the tables are registered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view: its query in Spark's SQL, its comment, and the comment of each of its columns."""

    name: str
    comment: str
    columns: Mapping[str, str]
    query: str


def views(names: Mapping[str, str], *, reports: str, within: str) -> Iterator[View]:
    """Yield every view; later ones may use earlier ones.

    `names` has the names of the tables in a query, `within` precedes those of other views.
    """
    for name, table in TABLES.items():
        own = [column for column in table.schema if column.name != LOAD_ID]
        selected = ", ".join(_value(one.name, reports if name == "runs" else "") for one in own)
        query = f"SELECT {selected}\nFROM {names[name]} AS d"
        if name != "runs" and LOAD_ID in table.schema.names:
            finished = f"{names['runs']} AS r"
            query += (
                f"\nLEFT SEMI JOIN {finished} ON d.run_date = r.run_date AND d.run_id = r.run_id "
                f"AND d.{LOAD_ID} = r.{LOAD_ID}"
            )
        columns = {one.name: comment_of(one) for one in own}
        yield View(name=name, comment=table.comment, columns=columns, query=query)
    for name in ANALYSES:
        query = view(name, within)
        comment = query[: query.index("\nSELECT")].replace("-- ", "").replace("\n", " ")
        columns = {one: COMMENTS[one] for one in columns_of(query)}
        yield View(name=name, comment=comment, columns=columns, query=query)


def statements(
    tables: Tables,
    *,
    reports: str = "",
    schema: str = SCHEMA,
    tables_in: str = "",
    dialect: Dialect = Dialect.SPARK,
) -> Iterator[str]:
    """Yield the statements that set the format's settings and create the views in `schema`.

    With an empty `schema` the views are temporary. `reports` is the address below which the run
    directories are published. With `tables_in` the views read the tables from that schema, for
    catalogs that refuse a path in a query; Spark registers them there. Raises `WarehouseError` if
    an engine cannot read the tables by their path.
    """
    within = f"{schema}." if schema else ""
    if dialect is not Dialect.SPARK:
        if schema:
            yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
        for made in views(_names(tables, tables_in, dialect), reports=reports, within=within):
            yield from _translated(made, within, dialect)
        return
    for key, value in tables.settings.items():
        yield f"SET {key}={value}"
    for name in filter(None, (schema, tables_in)):
        yield f"CREATE SCHEMA IF NOT EXISTS {name}"
    names = {name: tables.sql_name(name) for name in TABLES}
    if tables_in and tables.format is not Format.ICEBERG:  # Iceberg's are in a catalog already
        names = {name: f"{tables_in}.{name}" for name in TABLES}
        for name in TABLES:
            yield from tables.registration(name, names[name])
    for made in views(names, reports=reports, within=within):
        columns = ",\n  ".join(f"{one} COMMENT {text(of)}" for one, of in made.columns.items())
        yield (
            f"CREATE OR REPLACE {'' if schema else 'TEMPORARY '}VIEW {within}{made.name} (\n"
            f"  {columns}\n)\nCOMMENT {text(made.comment)} AS\n{made.query}"
        )


def _names(tables: Tables, tables_in: str, dialect: Dialect) -> dict[str, str]:
    """Return the names of the tables in a query of another engine than Spark."""
    if tables_in:
        return {name: f"{tables_in}.{name}" for name in TABLES}
    if dialect is Dialect.DUCKDB and tables.format is Format.PARQUET:
        return {name: tables.parquet_files(name) for name in TABLES}
    engine = {Dialect.DUCKDB: "DuckDB", Dialect.TRINO: "Trino"}[dialect]
    raise WarehouseError(
        f"{engine} reads the {tables.format} tables of {tables.address} in a catalog only: "
        f"register them there, and name catalog and schema, such as --tables-in lake.{SCHEMA}"
    )


def _translated(made: View, within: str, dialect: Dialect) -> Iterator[str]:
    name = f"{within}{made.name}"
    kind = "VIEW" if within or dialect is Dialect.TRINO else "TEMPORARY VIEW"
    yield f"CREATE OR REPLACE {kind} {name} AS\n{translated(made.query, dialect)}"
    yield f"COMMENT ON VIEW {name} IS {literal(made.comment, dialect)}"
    for column, comment in made.columns.items():
        yield f"COMMENT ON COLUMN {name}.{column} IS {literal(comment, dialect)}"


def columns_of(query: str) -> Iterator[str]:
    """Yield the names of a query's columns: `name`, `table.name` or `expression AS name`."""
    selected = query.partition("SELECT")[2]
    depth, before = 0, ""
    for part in re.split(r"([(),]|\bFROM\b)", selected):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part in (",", "FROM"):
            yield before.rsplit(maxsplit=1)[-1].rpartition(".")[2]
        if depth == 0 and part == "FROM":
            return
        before = part


def script(
    tables: Tables,
    *,
    reports: str = "",
    schema: str = SCHEMA,
    tables_in: str = "",
    dialect: Dialect = Dialect.SPARK,
) -> str:
    """Return `statements` as an SQL script; each ends with a semicolon at a line's end."""
    every = statements(tables, reports=reports, schema=schema, tables_in=tables_in, dialect=dialect)
    head = _HEAD.format(address=tables.address, runs_it=_RUNS_IT[dialect])
    return head + "".join(f"\n{one};\n" for one in every)


def _value(column: str, reports: str) -> str:
    if column == "report" and reports:
        page = f"concat({text(reports.rstrip('/') + '/')}, d.run_folder, '/report.html')"
        return f"CASE WHEN d.report IS NOT NULL THEN {page} END AS report"
    return f"d.{column}"
