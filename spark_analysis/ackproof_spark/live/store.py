"""The files of the live job: the live tables and its state, with each micro-batch exactly once.

A micro-batch writes files of its own, named after its number, and renames them when they are
complete. When Spark runs a batch again after a restart, it replaces the files of that batch:

    findings/batch-000000007.parquet    what micro-batch 7 found
    state/batch-000000007.parquet       each partition after micro-batch 7
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof_spark.errors import AnalysisError
from ackproof_spark.live.partition import Partition
from ackproof_spark.tables import LIVE_FINDINGS, LIVE_PARTITIONS, LOCATION

#: Topic and partition.
Key = tuple[str, int]

_STATE = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("text", pa.large_string()),
        pa.field("data", pa.large_binary()),
    ]
)


class LiveTables:
    """The live tables of one run; raises OSError if they cannot be written."""

    def __init__(self, run_dir: Path, *, fresh: bool) -> None:
        """Continue the tables that exist, or start with empty ones if `fresh`."""
        self._findings = _folder(run_dir / LOCATION["live_findings"], fresh=fresh)
        self._path = run_dir / LOCATION["live_partitions"]
        self._partitions: list[dict[str, Any]] = []
        if fresh:
            self._path.unlink(missing_ok=True)
        elif self._path.exists():
            self._partitions = pq.read_table(self._path).to_pylist()

    def write(
        self,
        batch: int,
        findings: Sequence[Mapping[str, Any]],
        partitions: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store what micro-batch `batch` found, and the partitions after it."""
        path = self._findings / _file(batch)
        if findings:
            _put(path, pa.Table.from_pylist(list(findings), schema=LIVE_FINDINGS))
        else:
            path.unlink(missing_ok=True)  # an earlier attempt may have written it
        table = pa.Table.from_pylist(list(partitions), schema=LIVE_PARTITIONS)
        _put(self._path, table)
        # A new list, because another thread may be reading the old one.
        self._partitions = table.to_pylist()

    def partitions(self) -> list[dict[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS`, by topic and partition."""
        return self._partitions


@dataclass(slots=True, kw_only=True)
class State:
    """The state after a micro-batch. `newest`: time of the newest event, UTC microseconds.

    `over`: the end of the run was read.
    """

    newest: int = 0
    over: bool = False
    partitions: dict[Key, Partition] = field(default_factory=dict)


class StateFiles:
    """Stores the state after each micro-batch."""

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        self._folder = _folder(folder / "state", fresh=fresh)

    def load(self, batch: int) -> State:
        """Return the state after micro-batch `batch`. Raises AnalysisError if it is missing."""
        try:
            table = pq.read_table(self._folder / _file(batch))
        except FileNotFoundError:
            raise AnalysisError(
                f"{self._folder} has no state after micro-batch {batch}, from which Spark's "
                "checkpoint continues; delete the folder checkpoint beside it to follow the run "
                "from its start"
            ) from None
        return State(
            newest=int(table.schema.metadata[b"newest"]),
            over=table.schema.metadata[b"over"] == b"True",
            partitions={
                (row["topic"], row["partition"]): Partition.unpacked(row["text"], row["data"])
                for row in table.to_pylist()
            },
        )

    def save(self, batch: int, state: State) -> None:
        """Store the state after micro-batch `batch`."""
        rows = [
            dict(zip(_STATE.names, (*key, *partition.packed()), strict=True))
            for key, partition in state.partitions.items()
        ]
        metadata = {"newest": str(state.newest), "over": str(state.over)}
        _put(
            self._folder / _file(batch),
            pa.Table.from_pylist(rows, schema=_STATE.with_metadata(metadata)),
        )
        # Spark runs the last batch again at most.
        (self._folder / _file(batch - 2)).unlink(missing_ok=True)


def _file(batch: int) -> str:
    return f"batch-{batch:09d}.parquet"


def _folder(path: Path, *, fresh: bool) -> Path:
    if fresh:
        shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _put(path: Path, table: pa.Table) -> None:
    # The leading `_` hides it from Spark and DuckDB until it is complete.
    temporary = path.with_name(f"_{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
