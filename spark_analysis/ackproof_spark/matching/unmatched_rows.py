"""The rows that the pass by offset returns: sends and records that do not match.

Rows of the ledger and of the final log in one schema, distinguished by `kind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from ackproof_spark.tables import FINAL_LOG, LEDGER


class Kind(StrEnum):
    """The kind of a row of `UNMATCHED`."""

    SEND = "send"
    RECORD = "record"
    LOOKUP = "lookup"
    SUMMARY = "summary"


#: Columns of the ledger and of the final log; `summary` is a slice's `SliceSummary` as JSON.
UNMATCHED = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        *(field.with_nullable(True) for field in list(LEDGER)[2:]),
        *(FINAL_LOG.field(name).with_nullable(True) for name in ("state", "size", "head")),
        pa.field("summary", pa.string()),
    ]
)


@dataclass(slots=True, kw_only=True)
class SliceSummary:
    """Counts of one slice.

    `outcomes`: sends by outcome, of the row groups that it owns. `returned`: returned rows by kind.
    `order`: `SendOrder.summary`. `unaligned`: why the slice cannot be compared by offset.
    """

    number: int
    outcomes: dict[str, int] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)
    order: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    unaligned: str | None = None


def unmatched_rows(kind: Kind, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = []
    for expected in UNMATCHED:
        column = columns.get(expected.name)
        if expected.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind.value), rows))
        elif column is None:
            arrays.append(pa.nulls(rows, expected.type))
        else:
            arrays.append(column if column.type == expected.type else column.cast(expected.type))
    return pa.RecordBatch.from_arrays(arrays, schema=UNMATCHED)
