"""The SQL by which a plain Spark reads a warehouse: tables as views, and analyses of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from ackproof_spark.warehouse.formats import Tables
from ackproof_spark.warehouse.schemas import TABLES

#: Analyses, in the order in which they may build on each other; each is a file of `analyses`.
ANALYSES = ("loss_rates", "loss_causes", "recovery_times", "duplicates", "cost", "trend")

_HEAD = """\
-- The views of the ackproof warehouse {address}
-- Written by `ackproof warehouse views`; a plain Spark with the format's jars runs it.
"""


def statements(tables: Tables, *, temporary: bool = False) -> Iterator[str]:
    """Yield a statement for each setting of the format and for each view, in the order to run."""
    for key, value in tables.settings.items():
        yield f"SET {key}={value}"
    create = f"CREATE OR REPLACE {'TEMPORARY ' if temporary else ''}VIEW"
    for name in TABLES:
        yield f"{create} {name} AS\n{_table(tables, name)}"
    for name in ANALYSES:
        yield f"{create} {name} AS\n{analysis(name)}"


def script(tables: Tables, *, temporary: bool = False) -> str:
    """Return all views as one SQL script; each statement ends with a semicolon at a line's end."""
    head = _HEAD.format(address=tables.address)
    return head + "".join(
        f"\n{statement};\n" for statement in statements(tables, temporary=temporary)
    )


def _table(tables: Tables, name: str) -> str:
    columns = ", ".join(f"d.`{column}`" for column in TABLES[name].names if column != "load_id")
    rows = f"SELECT {columns}\nFROM {tables.sql_name(name)} AS d"
    if name == "runs":
        return f"{rows}\nWHERE d.run_id IS NOT NULL"
    finished = f"{tables.sql_name('runs')} AS r ON d.run_id = r.run_id AND d.load_id = r.load_id"
    return f"{rows}\nLEFT SEMI JOIN {finished}"


def analysis(name: str) -> str:
    """Return the query of an analysis."""
    folder = resources.files("ackproof_spark.warehouse") / "analyses"
    return (folder / f"{name}.sql").read_text(encoding="utf-8").strip()
