"""The tables of a warehouse, from `tables.txt`: their columns, and what a row and a column mean.

The comments are stored with the tables and views, so that `DESCRIBE` and catalogs show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import pyarrow as pa

from ackproof_spark.tables import columns

#: Raised whenever the columns or the layout change.
WAREHOUSE_VERSION = 9

#: Every table is partitioned by this column.
RUN_DATE = "run_date"

#: The column that says which rows of a run count. Views leave it out.
LOAD_ID = "load_id"

#: Anomalies that have a column in `runs`; `observed` has all counts.
ANOMALY_COUNTS = ("lost", "duplicated", "reordered", "phantom", "corrupt", "unseen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: what a row is, and its columns, with the comment of each as Arrow metadata."""

    comment: str
    schema: pa.Schema


def comment_of(field: pa.Field) -> str:
    text: bytes = field.metadata[b"comment"]
    return text.decode()


def _read(text: str) -> tuple[dict[str, Table], dict[str, str]]:
    """Return tables in the order of `text`, and comments by column; see its head."""
    groups: dict[str, list[pa.Field]] = {}
    comments: dict[str, str] = {}
    fields: list[pa.Field] = []
    for line in filter(None, text.splitlines()):
        match line.split(maxsplit=2):
            case ["#", *_]:
                continue
            case [name] if name.startswith("+"):
                fields = groups[name.removeprefix("+")] = []
            case [name, *_] if name.endswith(":"):
                comments[name.removesuffix(":")] = line.partition(": ")[2]
                fields = groups[name.removesuffix(":")] = []
            case ["+", group]:
                fields += groups[group]
            case [name, kind, meaning]:
                [column] = columns(f"{name} {kind}")
                fields.append(column.with_metadata({"comment": meaning}))
    tables = {
        name: Table(comment=comment, schema=pa.schema(groups[name]))
        for name, comment in comments.items()
    }
    # The first description of a column counts: of those in `runs`, that of a run.
    every = [field for fields in (groups["runs"], *groups.values()) for field in fields]
    return tables, {field.name: comment_of(field) for field in reversed(every)}


#: `sends` (one row a send) and `reads` (one row a record of the final log) are loaded on request.
#: `COMMENTS` are those of the columns of all tables and of the views over them.
TABLES, COMMENTS = _read((files(__package__) / "tables.txt").read_text(encoding="utf-8"))
