"""The views of a warehouse, by which a plain Spark reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof_spark.warehouse.formats import Format, Tables, text
from ackproof_spark.warehouse.schemas import COMMENTS, LOAD_ID, TABLES, comment_of
from ackproof_spark.warehouse.sql_files import ANALYSES, SCHEMA, view

_HEAD = """\
-- The views of the ackproof warehouse {address}
-- Written by `ackproof warehouse views`; a plain Spark with the format's jars runs it.
"""


def statements(
    tables: Tables,
    *,
    reports: str = "",
    schema: str = SCHEMA,
    tables_in: str = "",
) -> Iterator[str]:
    """Yield the statements that set the format's settings and create the views in `schema`.

    With an empty `schema` the views are temporary. `reports` is the address below which the run
    directories are published. With `tables_in` the tables are registered in that schema, and the
    views read them from there, for catalogs that refuse a path in a query.
    """
    for key, value in tables.settings.items():
        yield f"SET {key}={value}"
    for name in filter(None, (schema, tables_in)):
        yield f"CREATE SCHEMA IF NOT EXISTS {name}"
    within = f"{schema}." if schema else ""
    create = f"CREATE OR REPLACE {'' if schema else 'TEMPORARY '}VIEW {within}"
    names = {name: tables.sql_name(name) for name in TABLES}
    if tables_in and tables.format is not Format.ICEBERG:  # Iceberg's are in a catalog already
        names = {name: f"{tables_in}.{name}" for name in TABLES}
        for name in TABLES:
            yield from tables.registration(name, names[name])
    for name, table in TABLES.items():
        own = [column for column in table.schema if column.name != LOAD_ID]
        columns = ",\n  ".join(f"{one.name} COMMENT {text(comment_of(one))}" for one in own)
        selected = ", ".join(_value(one.name, reports if name == "runs" else "") for one in own)
        query = f"SELECT {selected}\nFROM {names[name]} AS d"
        if name != "runs" and LOAD_ID in table.schema.names:
            finished = f"{names['runs']} AS r"
            query += (
                f"\nLEFT SEMI JOIN {finished} ON d.run_date = r.run_date AND d.run_id = r.run_id "
                f"AND d.{LOAD_ID} = r.{LOAD_ID}"
            )
        yield f"{create}{name} (\n  {columns}\n)\nCOMMENT {text(table.comment)} AS\n{query}"
    for name in ANALYSES:
        query = view(name, within)
        comment = query[: query.index("\nSELECT")].replace("-- ", "").replace("\n", " ")
        columns = ",\n  ".join(f"{one} COMMENT {text(COMMENTS[one])}" for one in columns_of(query))
        yield f"{create}{name} (\n  {columns}\n)\nCOMMENT {text(comment)} AS\n{query}"


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


def script(tables: Tables, *, reports: str = "", schema: str = SCHEMA, tables_in: str = "") -> str:
    """Return `statements` as an SQL script; each ends with a semicolon at a line's end."""
    every = statements(tables, reports=reports, schema=schema, tables_in=tables_in)
    return _HEAD.format(address=tables.address) + "".join(f"\n{one};\n" for one in every)


def _value(column: str, reports: str) -> str:
    if column == "report" and reports:
        page = f"concat({text(reports.rstrip('/') + '/')}, d.run_folder, '/report.html')"
        return f"CASE WHEN d.report IS NOT NULL THEN {page} END AS report"
    return f"d.{column}"
