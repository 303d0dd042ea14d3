"""The rows that the pass by offset returns: sends and records that do not match.

Rows of the ledger and of the final log in one schema, told apart by `kind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from ackproof_spark.tables import FINAL_LOG, LEDGER


class Kind(StrEnum):
    """What a row of `UNMATCHED` is."""

    SEND = "send"
    RECORD = "record"
    WANTED = "wanted"
    SUMMARY = "summary"


#: What the pass tells: rows of the ledger and of the final log, told apart by `kind`. `summary`
#: is JSON: a slice's `SliceSummary`.
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
    """What a slice tells of itself, one a slice.

    `outcomes`: sends by outcome, of the row groups it owns. `told`: rows by kind. `order`: what
    `SendOrder.summary` says. `unaligned`: why the slice cannot be compared like this.
    """

    number: int
    outcomes: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    order: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    unaligned: str | None = None


def unmatched_rows(kind: Kind, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = []
    for wanted in UNMATCHED:
        column = columns.get(wanted.name)
        if wanted.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind.value), rows))
        elif column is None:
            arrays.append(pa.nulls(rows, wanted.type))
        else:
            arrays.append(column if column.type == wanted.type else column.cast(wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=UNMATCHED)
