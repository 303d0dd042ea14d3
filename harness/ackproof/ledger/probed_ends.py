"""Ends of partitions that leaders answered to the probe: ListOffsets, latest, read uncommitted.

They are recorded in a stream among the files of the clients. (`proxy.listed_ends` has those that
the proxy saw.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.ledger.arrow_stream import StreamReader, StreamWriter, damage_reported

#: The name of the stream.
NAME = "probe-ends.arrows"

#: One row an answer. `at`: when the probe asked, in microseconds UTC. `leader_epoch`: that of the
#: leader that answered.
_SCHEMA = pa.schema(
    [
        pa.field("at", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("end", pa.int64()),
    ]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EndStream(StreamWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, what="the probe's record")

    def write(self, rows: Sequence[Mapping[str, int | str]]) -> None:
        if rows:
            self.append(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the answers with their times; none if the run has no such stream.

    Raises RunDirectoryError if it is damaged.
    """
    if not path.exists():
        return []
    with damage_reported(path):
        rows = pa.Table.from_batches(StreamReader(path).batches(), _SCHEMA).to_pylist()
    return [{**row, "at": _EPOCH + timedelta(microseconds=row["at"])} for row in rows]
