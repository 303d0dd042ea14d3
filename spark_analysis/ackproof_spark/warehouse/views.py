"""The SQL by which a plain Spark reads a warehouse: tables as views, and analyses of them.

`loads` holds the newest load of each run, which alone counts; every other view keeps to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from ackproof_spark.warehouse.formats import Format, source
from ackproof_spark.warehouse.schemas import BIG, SMALL, TABLES
from ackproof_spark.warehouse.storage import Storage

#: Analyses, in the order in which they may build on each other; each is a file of `analyses`.
ANALYSES = ("loss_rates", "recovery_times", "duplicates", "availability", "trend")

_HEAD = """\
-- The views of the ackproof warehouse {address}
-- Written by `ackproof warehouse views`; a plain Spark with the same format's reader runs it.
"""


def statements(storage: Storage, kind: Format, *, temporary: bool = False) -> Iterator[str]:
    """Yield one `CREATE OR REPLACE VIEW` for each view, in an order that works."""
    create = f"CREATE OR REPLACE {'TEMPORARY ' if temporary else ''}VIEW"
    for name, query in _queries(storage, kind):
        yield f"{create} {name} AS\n{query}"


def script(storage: Storage, kind: Format, *, temporary: bool = False) -> str:
    """Return all views as one SQL script; each statement ends with a semicolon at a line's end."""
    head = _HEAD.format(address=storage.address)
    return head + "".join(
        f"\n{statement};\n" for statement in statements(storage, kind, temporary=temporary)
    )


def _queries(storage: Storage, kind: Format) -> Iterator[tuple[str, str]]:
    parquet = kind is Format.PARQUET
    newest = "load_id DESC, batch DESC" if parquet else "load_id DESC"
    pointer = ["load_id", "batch"] if parquet else ["load_id"]
    columns = _columns("runs")
    yield (
        "loads",
        f"SELECT {', '.join([*columns, *pointer])} FROM (\n"  # noqa: S608  our own names
        f"  SELECT *, row_number() OVER (PARTITION BY run_id ORDER BY {newest}) AS place\n"
        f"  FROM {source(storage, kind, 'runs')}\n) WHERE place = 1",
    )
    yield "runs", f"SELECT {', '.join(columns)} FROM loads"  # noqa: S608
    for name in (*SMALL, *BIG):
        # `compact` puts the rows of many loads into one batch, but leaves the big tables alone.
        of_load = "d.load_id = l.load_id"
        if parquet:
            of_load = f"d.batch = l.{'load_id' if name in BIG else 'batch'}"
        yield (
            name,
            f"SELECT {', '.join(f'd.{column}' for column in _columns(name))}\n"
            f"FROM {source(storage, kind, name)} AS d\n"
            f"LEFT SEMI JOIN loads AS l ON d.run_id = l.run_id AND {of_load}",
        )
    for name in ANALYSES:
        yield name, analysis(name)


def _columns(table: str) -> list[str]:
    return [f"`{name}`" for name in TABLES[table].names if name != "load_id"]


def analysis(name: str) -> str:
    """Return the query of an analysis."""
    folder = resources.files("ackproof_spark.warehouse") / "analyses"
    return (folder / f"{name}.sql").read_text(encoding="utf-8").strip()
