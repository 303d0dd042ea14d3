"""A moving window of offsets over the final log, which one slice of the pass by offset uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackproof_spark.matching.row_groups import (
    MAX_PRODUCERS,
    Int64s,
    Producers,
    RecordGroup,
    TakeGeneralPath,
    whole,
)
from ackproof_spark.tables import RecordState

#: Value of a window's `producer` at an offset without a record.
NO_PRODUCER = MAX_PRODUCERS

#: Records decoded at a time.
_BATCH = 1 << 17

_NAMED = ["offset", "producer", "sequence"]

Aside = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Intact records of one partition, by offset; `producer` is an index (`Producers`)."""

    offset: Int64s
    producer: Int64s
    sequence: Int64s

    def __getitem__(self, part: slice) -> Records:
        return Records(
            offset=self.offset[part], producer=self.producer[part], sequence=self.sequence[part]
        )


class LogReader:
    """Reads the records of one partition with offsets from `begin` to `end` (exclusive).

    Records that are not intact, or of an unknown producer, cannot match; they go to `aside`.
    """

    def __init__(
        self,
        groups: Sequence[RecordGroup],
        *,
        filesystem: pafs.FileSystem,
        begin: int,
        end: int,
        producers: Producers,
        aside: Aside,
    ) -> None:
        self._filesystem = filesystem
        self._begin, self._end = begin, end
        self._producers = producers
        self._aside = aside
        self._batches = self._read(groups)
        self._rest: Records | None = None

    def take(self, before: int) -> Iterator[Records]:
        """Yield the records before offset `before` that were not yielded yet.

        Raises `TakeGeneralPath` if the records are not sorted by offset.
        """
        while (rest := self._rest or next(self._batches, None)) is not None:
            count = int(np.searchsorted(rest.offset, before))
            self._rest = rest[count:] if count < len(rest.offset) else None
            if count:
                yield rest[:count]
            if self._rest is not None:
                return

    def _read(self, groups: Sequence[RecordGroup]) -> Iterator[Records]:
        at = -1
        for group in groups:
            columns = _NAMED if whole(group) else [*_NAMED, "state", "size", "head"]
            with pq.ParquetFile(
                group.path,
                filesystem=self._filesystem,
                read_dictionary=["state", "head"],
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file:
                for batch in file.iter_batches(
                    _BATCH, row_groups=[group.number], columns=columns, use_threads=False
                ):
                    offset = batch["offset"].to_numpy()
                    if offset[0] <= at or not (offset[1:] > offset[:-1]).all():
                        raise TakeGeneralPath(
                            f"{group.topic}-{group.partition} is not sorted by offset in "
                            f"{group.path}, near offset {offset[0]}"
                        )
                    at = offset[-1]
                    first, last = np.searchsorted(offset, [self._begin, self._end])
                    if first < last:
                        yield from self._intact(group, batch[first:last])
                    if last < len(offset):
                        return

    def _intact(self, group: RecordGroup, batch: pa.RecordBatch) -> Iterator[Records]:
        """Yield the intact records of a batch; pass the others to `aside`."""
        producer = self._producers.indices(integers(batch["producer"]))
        usable = producer >= 0
        if not whole(group):
            state = batch["state"]
            codes = {word: code for code, word in enumerate(state.dictionary.to_pylist())}
            usable &= state.indices.to_numpy() == codes.get(RecordState.INTACT, -1)
        columns = {name: integers(batch[name]) for name in ("offset", "sequence")}
        columns["producer"] = producer
        if not usable.all():
            self._put_aside(group, batch.take(pa.array(np.flatnonzero(~usable))))
            columns = {name: column[usable] for name, column in columns.items()}
        if len(columns["offset"]):
            yield Records(**columns)

    def _put_aside(self, group: RecordGroup, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        columns = {name: batch[name] for name in batch.schema.names}
        if "state" not in columns:
            columns["state"] = pa.repeat(pa.scalar(RecordState.INTACT.value), rows)
        columns["topic"] = pa.repeat(pa.scalar(group.topic), rows)
        columns["partition"] = pa.repeat(pa.scalar(group.partition, pa.int32()), rows)
        self._aside(pa.RecordBatch.from_pydict(columns))


def integers(column: pa.Array) -> Int64s:
    """Return a column of integers, -1 for null."""
    values: Int64s = (column.fill_null(-1) if column.null_count else column).to_numpy()
    return values


class LogWindow:
    """The record at each offset from `base` to `end` (exclusive) of each partition.

    The arrays have a row for each partition and a column for each offset from `base`: `producer`
    (`NO_PRODUCER` without a record), `sequence`, `matched` (by its own send), `contested` (another
    send was acked at this offset).
    """

    def __init__(self, partitions: Sequence[int], base: int) -> None:
        self.partitions = tuple(partitions)
        self.base = self.end = base
        self._allocate(0)

    def _arrays(self) -> Sequence[npt.NDArray[Any]]:
        return self.producer, self.sequence, self.matched, self.contested

    def _allocate(self, width: int) -> None:
        shape = (len(self.partitions), width)
        self.producer = np.full(shape, NO_PRODUCER, np.uint16)
        self.sequence = np.empty(shape, np.int64)
        self.matched = np.zeros(shape, np.bool_)
        self.contested = np.zeros(shape, np.bool_)

    @property
    def width(self) -> int:
        return self.producer.shape[1]

    def extend(self, end: int) -> None:
        """Extend the window up to offset `end`, without records yet."""
        if end - self.base > self.width:
            before, used = self._arrays(), self.end - self.base
            self._allocate(max(end - self.base, self.width * 3 // 2))
            for old, new in zip(before, self._arrays(), strict=True):
                new[:, :used] = old[:, :used]
        self.end = max(self.end, end)

    def put(self, row: int, records: Records) -> None:
        """Put records into the partition of `row`."""
        first, last = int(records.offset[0]) - self.base, int(records.offset[-1]) - self.base
        at: slice | Int64s = slice(first, last + 1)
        if last - first + 1 != len(records.offset):
            at = records.offset - self.base
        self.producer[row, at] = records.producer
        self.sequence[row, at] = records.sequence

    def drop(self, before: int) -> None:
        """Drop all records before offset `before`."""
        gone, used = before - self.base, self.end - self.base
        for array in self._arrays():
            array[:, : used - gone] = array[:, gone:used]
        emptied = slice(used - gone, used)
        self.producer[:, emptied] = NO_PRODUCER
        self.matched[:, emptied] = self.contested[:, emptied] = False
        self.base = before
