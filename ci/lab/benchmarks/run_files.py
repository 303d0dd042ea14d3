"""Writes the tables of a run in pieces, with the layout of real runs.

A ledger file for each producer, in row groups of `producer_ledger.ROW_GROUP` sends, each sorted by
partition and offset. A file of the final log for each half million records of a partition, sorted
by offset, with Spark's compression and encodings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.ledger.producer_ledger import ROW_GROUP, parquet_writer, table_path
from ackproof.runs.directory import disk_errors
from ackproof_spark import record
from ackproof_spark.tables import (
    FAULT_WINDOWS,
    FINAL_LOG,
    LEDGER,
    LOCATION,
    PARTITION_ENDS,
    SCHEMA_VERSION,
    TIME,
    Outcome,
    RecordState,
)

Int64s = npt.NDArray[np.int64]

RUN_ID = "bench-check"
TOPIC = "orders"
#: Size of a record in bytes.
SIZE = 100
#: Records in a file of the final log: those that a task of `final_log` reads.
_LOG_FILE = 500_000
#: Maximum number of records in a row group; Spark's maximum is 128 MB.
_LOG_GROUP = 5_000_000

_HEAD = 64
_START_US = 1_767_225_600_000_000
_US_AN_OFFSET = 15
_ACK_US = 5_000

#: States of records and outcomes of sends, by the codes in arrays.
STATES = (RecordState.INTACT, RecordState.CORRUPT, RecordState.FOREIGN)
OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.UNKNOWN)


class _Columns:
    """Columns of rows that are not written yet."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, *columns: npt.NDArray[Any]) -> None:
        self.rows += len(columns[0])
        self._parts.append(columns)

    def take(self, count: int) -> list[npt.NDArray[Any]]:
        """Remove and return the first `count` rows."""
        whole = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        self._parts = [tuple(column[count:] for column in whole)]
        self.rows = max(0, self.rows - count)
        return [column[:count] for column in whole]


class LedgerFile:
    """One producer's ledger."""

    def __init__(self, run_dir: Path, producer: int) -> None:
        self._producer = producer
        self._path = table_path(run_dir, producer)
        self._pending = _Columns()
        self._writer = parquet_writer(self._path)
        self._jitter = np.random.default_rng(producer)

    def add(
        self, partition: int, sequence: Int64s, offset: Int64s, outcome: npt.NDArray[np.int8]
    ) -> None:
        """Add sends to `partition`; `offset` is that of the record, acked or not."""
        self._pending.add(np.full(len(sequence), partition, np.int32), sequence, offset, outcome)
        while self._pending.rows >= ROW_GROUP:
            self._write()

    def close(self) -> None:
        with disk_errors(self._path):
            if self._pending.rows:
                self._write()
            self._writer.close()

    def _write(self) -> None:
        partition, sequence, offset, outcome = self._pending.take(ROW_GROUP)
        acked = outcome == OUTCOMES.index(Outcome.ACKED)
        # The order of `producer_ledger`: null offsets are last.
        order = np.lexsort((np.where(acked, offset, np.iinfo(np.int64).max), partition))
        partition, sequence, offset, outcome = (
            column[order] for column in (partition, sequence, offset, outcome)
        )
        acked = acked[order]
        sent_at = _START_US + offset * _US_AN_OFFSET + self._jitter.integers(64, size=len(order))
        took = _ACK_US + self._jitter.integers(8192, size=len(order))
        columns = {
            "producer": pa.repeat(pa.scalar(self._producer, pa.int64()), len(order)),
            "sequence": pa.array(sequence),
            "topic": pa.repeat(pa.scalar(TOPIC), len(order)),
            "partition": pa.array(partition),
            "outcome": pa.array([*OUTCOMES], pa.string()).take(pa.array(outcome)),
            "error": pa.array(["_MSG_TIMED_OUT"]).take(
                pa.array(np.zeros(len(order), int), mask=acked)
            ),
            "offset": pa.array(offset, mask=~acked),
            "sent_at": pa.array(sent_at).cast(TIME),
            "resolved_at": pa.array(sent_at + took).cast(TIME),
        }
        with disk_errors(self._path):
            self._writer.write_table(_table(LEDGER, columns), row_group_size=len(order))


class LogFiles:
    """The files of one partition of the final log."""

    def __init__(self, run_dir: Path, partition: int) -> None:
        self._folder = run_dir / LOCATION["final_log"]
        self._partition = partition
        self._pending = _Columns()
        self._files = 0

    def add(
        self, offset: Int64s, producer: Int64s, sequence: Int64s, state: npt.NDArray[np.int8]
    ) -> None:
        """Add records; damaged ones have `producer` and `sequence` as well, for their header."""
        self._pending.add(offset, producer, sequence, state)
        while self._pending.rows >= _LOG_FILE:
            self._write()

    def close(self) -> None:
        if self._pending.rows:
            self._write()

    def _write(self) -> None:
        offset, producer, sequence, state = self._pending.take(_LOG_FILE)
        rows = len(offset)
        damaged = state != STATES.index(RecordState.INTACT)
        heads = np.full(rows, None, object)
        for at in np.flatnonzero(damaged):
            heads[at] = _head(STATES[state[at]], int(producer[at]), int(sequence[at]))
        columns = {
            "topic": pa.repeat(pa.scalar(TOPIC), rows),
            "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            "offset": pa.array(offset),
            "written_at": pa.array(_START_US + offset * _US_AN_OFFSET).cast(TIME),
            "state": pa.array([*STATES], pa.string()).take(pa.array(state)),
            "producer": pa.array(producer, mask=damaged),
            "sequence": pa.array(sequence, mask=damaged),
            "size": pa.repeat(pa.scalar(SIZE, pa.int32()), rows),
            "head": pa.array(heads, pa.string()),
        }
        path = self._folder / f"part-{self._partition:03}-{self._files:05}.snappy.parquet"
        distinct = ["offset", "written_at", "sequence"]
        with disk_errors(path):
            pq.write_table(
                _table(FINAL_LOG, columns),
                path,
                compression="snappy",
                use_dictionary=[name for name in FINAL_LOG.names if name not in distinct],
                row_group_size=_LOG_GROUP,
            )
        self._files += 1


def _head(state: RecordState, producer: int, sequence: int) -> str:
    if state is RecordState.FOREIGN:
        return b"somebody else's record".hex().upper()
    value = record.encoder(run_id=RUN_ID, producer=producer, size=SIZE)(sequence)
    return value[:_HEAD].hex().upper()


def _table(schema: pa.Schema, columns: dict[str, pa.Array]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    columns |= {
        "schema_version": pa.repeat(pa.scalar(SCHEMA_VERSION, pa.int32()), rows),
        "run_id": pa.repeat(pa.scalar(RUN_ID), rows),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def write_small_tables(run_dir: Path, *, ends: list[int], read_to: list[int]) -> None:
    """Write the ends of the partitions and how far each was read, and an empty fault table."""
    rows = [
        {
            "schema_version": SCHEMA_VERSION,
            "run_id": RUN_ID,
            "topic": TOPIC,
            "partition": partition,
            "begin_offset": 0,
            "end_offset": end,
            "complete": read == end,
            "reason": None if read == end else f"read up to {read} of {end}",
        }
        for partition, (end, read) in enumerate(zip(ends, read_to, strict=True))
    ]
    with disk_errors(run_dir):
        pq.write_table(
            pa.Table.from_pylist(rows, schema=PARTITION_ENDS), run_dir / LOCATION["partition_ends"]
        )
        pq.write_table(FAULT_WINDOWS.empty_table(), run_dir / LOCATION["fault_windows"])
