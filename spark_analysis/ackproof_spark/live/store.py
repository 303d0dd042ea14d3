"""The files of the live job: the live tables and its state, with each micro-batch exactly once.

A micro-batch writes files of its own, named after its number, and renames them when they are
complete. When Spark runs a batch again after a restart, it replaces the files of that batch:

    windows/ loss_candidates/    rows of the live tables
    matched/                     sends that were acked and read, deleted after `partition.MEMORY_S`
    open/batch-000000007.parquet after micro-batch 7: unseen sends, and reads without an outcome
    open/batch-000000007.json    after micro-batch 7: totals and open windows of each partition
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof_spark.errors import AnalysisError
from ackproof_spark.live.partition import MEMORY_S, SENDS, Partition, Rows, keys, rows_of
from ackproof_spark.tables import LIVE_PARTITIONS, LIVE_WINDOWS, LOCATION, LOSS_CANDIDATES, columns

WINDOWS = "live_windows"
CANDIDATES = "loss_candidates"
PARTITIONS = "live_partitions"

SCHEMAS = {WINDOWS: LIVE_WINDOWS, CANDIDATES: LOSS_CANDIDATES, PARTITIONS: LIVE_PARTITIONS}

#: Topic and partition.
Key = tuple[str, int]

_SENDS = columns("""
    topic string?, partition int?, role string?, producer bigint?, sequence bigint?,
    offset bigint?, window bigint?, raised bigint?
""")
_COLUMNS = _SENDS.names[3:]


class LiveTables:
    """The live tables of one run; raises OSError if they cannot be written."""

    def __init__(self, run_dir: Path, *, fresh: bool) -> None:
        """Continue the tables that exist, or start with empty ones if `fresh`."""
        self._run_dir = run_dir
        self._partitions: dict[Key, dict[str, Any]] = {}
        for name in (WINDOWS, CANDIDATES):
            _folder(run_dir / LOCATION[name], fresh=fresh)
        path = run_dir / LOCATION[PARTITIONS]
        if fresh:
            path.unlink(missing_ok=True)
        elif path.exists():
            rows = pq.read_table(path).to_pylist()
            self._partitions = {(row["topic"], row["partition"]): row for row in rows}

    def write(self, batch: int, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Store the rows of micro-batch `batch`, by the name of their table."""
        for name in (WINDOWS, CANDIDATES):
            path = self._run_dir / LOCATION[name] / _file(batch)
            _put_rows(path, pa.Table.from_pylist(list(rows.get(name, ())), schema=SCHEMAS[name]))
        changed = {
            (row["topic"], row["partition"]): {**row, "batch": batch}
            for row in rows.get(PARTITIONS, ())
        }
        current = sorted((self._partitions | changed).items())
        table = pa.Table.from_pylist([row for _, row in current], schema=LIVE_PARTITIONS)
        _put(self._run_dir / LOCATION[PARTITIONS], table)
        # A new dictionary, because another thread may be reading the old one.
        self._partitions = {(row["topic"], row["partition"]): row for row in table.to_pylist()}

    def partitions(self) -> list[dict[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS`, by topic and partition."""
        return [row for _, row in sorted(self._partitions.items())]


@dataclass(slots=True, kw_only=True)
class State:
    """The state after a micro-batch; times are UTC microseconds."""

    #: Length of a window.
    width: int
    #: Time of the newest event.
    newest: int = 0
    partitions: dict[Key, Partition] = field(default_factory=dict)


class StateFiles:
    """Stores the state after each micro-batch, and the sends that each matched."""

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        self._open = _folder(folder / "open", fresh=fresh)
        self._matched = _folder(folder / "matched", fresh=fresh)

    def load(self, batch: int) -> State:
        """Return the state after micro-batch `batch`. Raises AnalysisError if it is missing."""
        path = self._open / _file(batch)
        try:
            stored = json.loads(path.with_suffix(".json").read_text())
            sends = pq.read_table(path)
        except FileNotFoundError:
            raise AnalysisError(
                f"{self._open} has no state after micro-batch {batch}, from which Spark's "
                "checkpoint continues; delete the folder checkpoint beside it to follow the run "
                "from its start"
            ) from None
        partitions = {
            (topic, partition): Partition.of(
                numbers,
                width=stored["width"],
                unseen=_select(sends, (topic, partition), "unseen"),
                early=_select(sends, (topic, partition), "early"),
            )
            for topic, partition, numbers in stored["partitions"]
        }
        return State(width=stored["width"], newest=stored["newest"], partitions=partitions)

    def save(self, batch: int, state: State, matched: Mapping[Key, Rows]) -> None:
        """Store the state after micro-batch `batch`, and the sends that it matched."""
        rows = [_rows_of(key, "matched", sends) for key, sends in matched.items()]
        _put_rows(self._matched / _file(batch), pa.concat_tables([_SENDS.empty_table(), *rows]))
        rows = [
            _rows_of(key, role, sends)
            for key, partition in state.partitions.items()
            for role, sends in (("unseen", partition.unseen), ("early", partition.early))
        ]
        path = self._open / _file(batch)
        _put(path, pa.concat_tables([_SENDS.empty_table(), *rows]))
        numbers = [(*key, partition.numbers()) for key, partition in state.partitions.items()]
        stored = {"width": state.width, "newest": state.newest, "partitions": numbers}
        temporary = path.with_name(f"_{path.stem}.tmp")
        temporary.write_text(json.dumps(stored))
        temporary.replace(path.with_suffix(".json"))
        # Spark runs the last batch again at most.
        for stale in self._files(self._open, before=batch - 1):
            stale.with_suffix(".json").unlink(missing_ok=True)
            stale.unlink()

    def matched_from(self, batch: int, key: Key, offset: int) -> Rows:
        """Return sends matched before `batch` and last read at `offset` or above."""
        own = [("topic", "=", key[0]), ("partition", "=", key[1])]
        files = self._files(self._matched, before=batch)
        tables = [pq.read_table(path, schema=_SENDS, filters=own) for path in files]
        sends = _select(pa.concat_tables([_SENDS.empty_table(), *tables]), key, "matched")
        # Of a send that was read again after a truncation, the latest read counts.
        _, latest = np.unique(keys(sends)[::-1], return_index=True)
        sends = sends[len(sends) - 1 - latest]
        return sends[sends["offset"] >= offset]

    def forget(self, batch: int, state: State) -> None:
        """Delete sends matched before micro-batch `batch` that are too old to be reverted.

        `state` is the one before that micro-batch, so that the same files are left if Spark runs
        it again.
        """
        oldest = (state.newest - MEMORY_S * 1_000_000) // state.width
        for path in self._files(self._matched, before=batch):
            if pc.max(pq.read_table(path, columns=["window"])["window"]).as_py() >= oldest:
                return
            path.unlink()

    @staticmethod
    def _files(folder: Path, *, before: int) -> Iterator[Path]:
        for path in sorted(folder.glob("batch-*.parquet")):
            if int(path.stem.partition("-")[2]) < before:
                yield path


def _rows_of(key: Key, role: str, sends: Rows) -> pa.Table:
    """Return sends of a partition as rows."""
    count = len(sends)
    return pa.table(
        [
            pa.repeat(pa.scalar(key[0]), count),
            pa.repeat(pa.scalar(key[1], pa.int32()), count),
            pa.repeat(pa.scalar(role), count),
            *(sends[name] for name in _COLUMNS),
        ],
        schema=_SENDS,
    )


def _select(rows: pa.Table, key: Key, role: str) -> Rows:
    own = rows.filter(
        (pc.field("topic") == key[0])
        & (pc.field("partition") == key[1])
        & (pc.field("role") == role)
    )
    return rows_of([own[name].to_numpy() for name in _COLUMNS], SENDS)


def _file(batch: int) -> str:
    return f"batch-{batch:09d}.parquet"


def _folder(path: Path, *, fresh: bool) -> Path:
    if fresh:
        shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _put_rows(path: Path, table: pa.Table) -> None:
    """Write the table; without rows delete the file, which an earlier attempt may have written."""
    if table.num_rows:
        _put(path, table)
    else:
        path.unlink(missing_ok=True)


def _put(path: Path, table: pa.Table) -> None:
    # The leading `_` hides it from Spark and DuckDB until it is complete.
    temporary = path.with_name(f"_{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
