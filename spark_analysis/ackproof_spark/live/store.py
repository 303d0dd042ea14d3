"""The live tables and the state of the live job, as files, from each micro-batch exactly once.

A micro-batch writes files of its own, named after its number, and renames them when they are
complete. When Spark runs a batch again after a restart, it replaces the files of that batch:

    windows/ loss_candidates/    rows of the live tables, for everybody
    matched/                     sends that were acked and read, deleted after `partition.MEMORY_S`
    open/batch-7.parquet         after micro-batch 7: sends unseen, and reads without an outcome
    open/batch-7.json            after micro-batch 7: totals and open windows of each partition
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof_spark.live.partition import Partition, Sends
from ackproof_spark.tables import (
    LIVE_PARTITIONS,
    LIVE_WINDOWS,
    LOCATION,
    LOSS_CANDIDATES,
)

WINDOWS = "live_windows"
CANDIDATES = "loss_candidates"
PARTITIONS = "live_partitions"

SCHEMAS = {WINDOWS: LIVE_WINDOWS, CANDIDATES: LOSS_CANDIDATES, PARTITIONS: LIVE_PARTITIONS}

#: Topic and partition.
Key = tuple[str, int]

_COLUMNS = [field.name for field in fields(Sends)]
_SENDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("role", pa.string()),
        *((name, pa.int64()) for name in _COLUMNS),
    ]
)


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
            if rows.get(name):
                _put(path, pa.Table.from_pylist(rows[name], schema=SCHEMAS[name]))
            else:
                path.unlink(missing_ok=True)
        for row in rows.get(PARTITIONS, ()):
            self._partitions[row["topic"], row["partition"]] = {**row, "batch": batch}
        table = pa.Table.from_pylist(self.partitions(), schema=LIVE_PARTITIONS)
        _put(self._run_dir / LOCATION[PARTITIONS], table)
        # As it is stored, also for whoever asks this process.
        self._partitions = {(row["topic"], row["partition"]): row for row in table.to_pylist()}

    def partitions(self) -> list[dict[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS`, by topic and partition."""
        return [row for _, row in sorted(self._partitions.items())]


class OpenState:
    """The partitions after a micro-batch, and the sends that earlier ones matched."""

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        self._open = _folder(folder / "open", fresh=fresh)
        self._matched = _folder(folder / "matched", fresh=fresh)

    def load(self, before: int) -> tuple[int, dict[Key, Partition]]:
        """Return the newest event's time and the partitions as they were before micro-batch."""
        numbers = [int(path.stem.partition("-")[2]) for path in self._open.glob("batch-*.json")]
        last = max((number for number in numbers if number < before), default=None)
        if last is None:
            return 0, {}
        stored = json.loads((self._open / _file(last)).with_suffix(".json").read_text())
        sends = pq.read_table(self._open / _file(last))
        return stored["newest"], {
            (topic, partition): Partition.of(
                numbers,
                unseen=_select(sends, (topic, partition), "unseen"),
                early=_select(sends, (topic, partition), "early"),
            )
            for topic, partition, numbers in stored["partitions"]
        }

    def save(
        self, batch: int, newest: int, partitions: Mapping[Key, Partition], matched: pa.Table
    ) -> None:
        """Store the state after micro-batch `batch`, and the sends that it matched."""
        _put(self._matched / _file(batch), matched)
        rows = [
            rows_of(key, role, sends)
            for key, partition in partitions.items()
            for role, sends in (("unseen", partition.unseen), ("early", partition.early))
        ]
        path = self._open / _file(batch)
        _put(path, pa.concat_tables([_SENDS.empty_table(), *rows]))
        numbers = [(*key, partition.numbers()) for key, partition in partitions.items()]
        temporary = path.with_name(f"_{path.stem}.tmp")
        temporary.write_text(json.dumps({"newest": newest, "partitions": numbers}))
        temporary.replace(path.with_suffix(".json"))
        # Spark runs the last batch again at most.
        for stale in self._files(self._open, before=batch - 1):
            stale.unlink()
            stale.with_suffix(".json").unlink(missing_ok=True)

    def matched_from(self, batch: int, key: Key, offset: int) -> Sends:
        """Return sends matched before `batch` and last read at `offset` or above."""
        own = [("topic", "=", key[0]), ("partition", "=", key[1])]
        files = self._files(self._matched, before=batch)
        tables = [pq.read_table(path, schema=_SENDS, filters=own) for path in files]
        found = _select(pa.concat_tables([_SENDS.empty_table(), *tables]), key, "matched")
        # Of a send that was read again after a truncation, the latest read counts.
        _, latest = np.unique(found.keys[::-1], return_index=True)
        found = found.where(len(found) - 1 - latest)
        return found.where(found.offset >= offset)

    def forget(self, before_window: int) -> None:
        """Delete the files whose sends are all of earlier windows."""
        for path in sorted(self._matched.glob("batch-*.parquet")):
            windows = pq.read_table(path, columns=["window"])["window"]
            if len(windows) and pc.max(windows).as_py() >= before_window:
                return
            path.unlink()

    @staticmethod
    def _files(folder: Path, *, before: int) -> Iterator[Path]:
        for path in sorted(folder.glob("batch-*.parquet")):
            if int(path.stem.partition("-")[2]) < before:
                yield path


def rows_of(key: Key, role: str, sends: Sends) -> pa.Table:
    """Return sends of a partition as rows."""
    count = len(sends)
    return pa.table(
        [
            pa.repeat(pa.scalar(key[0]), count),
            pa.repeat(pa.scalar(key[1], pa.int32()), count),
            pa.repeat(pa.scalar(role), count),
            *(getattr(sends, name) for name in _COLUMNS),
        ],
        schema=_SENDS,
    )


def matched_rows(by_partition: Mapping[Key, Sends]) -> pa.Table:
    """Return the sends that a micro-batch matched, as rows."""
    rows = [rows_of(key, "matched", sends) for key, sends in by_partition.items()]
    return pa.concat_tables([_SENDS.empty_table(), *rows])


def _select(rows: pa.Table, key: Key, role: str) -> Sends:
    own = rows.filter(
        (pc.field("topic") == key[0])
        & (pc.field("partition") == key[1])
        & (pc.field("role") == role)
    )
    return Sends(**{name: own[name].to_numpy() for name in _COLUMNS})


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
