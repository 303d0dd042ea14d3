"""The Parquet row groups of ledger and final log, and their statistics.

Both tables are nearly sorted by offset, and the statistics of a row group have its lowest and
highest offset. So few row groups overlap a range of offsets (`slices`). `TakeGeneralPath` is raised
if the statistics do not help.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackproof_spark.spark.arrow_files import arrow_files, part_files
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.small_data import FEW
from ackproof_spark.tables import (
    FINAL_LOG,
    LEDGER,
    LOCATION,
    PROBE_PRODUCERS,
    RecordState,
)

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """The number of producers of the workload, and of the probe."""

    workload: int
    probe: int

    @property
    def count(self) -> int:
        return self.workload + self.probe

    def indices(self, numbers: Int64s) -> Int64s:
        """Return the index of each number; -1 or lower for a number without a producer."""
        if not len(numbers) or numbers.max() < self.workload:
            return numbers
        of_probe = numbers - PROBE_PRODUCERS
        known = (of_probe >= 0) & (of_probe < self.probe)
        return np.where(
            numbers < self.workload, numbers, np.where(known, of_probe + self.workload, -1)
        )

    def numbers(self, indices: Int64s) -> Int64s:
        if not self.probe:
            return indices
        return np.where(indices < self.workload, indices, indices - self.workload + PROBE_PRODUCERS)

    def number(self, index: int) -> int:
        return int(self.numbers(np.array([index]))[0])


#: Writers may truncate longer texts in statistics, so only shorter texts count as constant.
_WHOLE_TEXT = 32

#: Indices of producers have 16 bits; the highest means "no record".
MAX_PRODUCERS = 2**16 - 1


class TakeGeneralPath(Exception):  # noqa: N818  no error
    """The layout of the tables does not allow the pass by offset; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The limits of the pass by offset.

    `from_rows`: with fewer sends and records, the driver compares them itself. `rows_a_slice`:
    sends and records of one slice; larger slices read fewer rows twice. `buffer_bytes`: memory for
    the log in one task. `placed`: the least share of sends with an offset. `lookups`: the most
    names to look up again. `few`: up to this many rows, `small_data.small_plans` is used.
    """

    from_rows: int = 4_000_000
    rows_a_slice: int = 64_000_000
    buffer_bytes: int = 512 * 2**20
    placed: float = 0.5
    lookups: int = 1_000_000
    few: int = FEW


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGroup:
    """A row group of the ledger with its statistics.

    `first` and `last`: the lowest and highest acked offset, if any. `constant`: columns with the
    same value in all rows, which need not be read.
    """

    path: str
    number: int
    rows: int
    topics: tuple[str, str]
    producers: tuple[int, int]
    sequences: tuple[int, int]
    first: int | None
    last: int | None
    without_offset: int
    constant: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordGroup:
    """A row group of the final log: records `first` to `last` of one partition, sorted."""

    path: str
    number: int
    rows: int
    topic: str
    partition: int
    first: int
    last: int
    constant: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The row groups of a run's ledger and final log, and the filesystem to read them."""

    filesystem: pafs.FileSystem
    sends: tuple[SendGroup, ...]
    records: tuple[RecordGroup, ...]

    @property
    def rows(self) -> int:
        """Sends and records together."""
        return sum(group.rows for group in self.sends) + sum(group.rows for group in self.records)

    @property
    def producers(self) -> Producers:
        """The producers of the ledger; `TakeGeneralPath` if there are too many."""
        counts = {False: 0, True: 0}
        for low, high in {group.producers for group in self.sends}:
            of_probe = low >= PROBE_PRODUCERS
            counts[of_probe] = max(counts[of_probe], high + 1 - of_probe * PROBE_PRODUCERS)
            if low < 0 or sum(counts.values()) > MAX_PRODUCERS:
                raise TakeGeneralPath(f"producers are numbered {low} to {high}")
        return Producers(workload=counts[False], probe=counts[True])

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Upper bound of the sequences by the producer's index, -1 without sequences."""
        producers = self.producers
        bounds = np.full(producers.count, -1, np.int64)
        for group in self.sends:
            first, last = producers.indices(np.array(group.producers))
            here = bounds[first : last + 1]
            np.maximum(here, group.sequences[1], out=here)
        return bounds


def read_layout(spark: SparkSession | None, run_dir: Path | str) -> Layout:
    """Return the layout of the run's big tables, from the Parquet footers.

    Raises `TakeGeneralPath` if pyarrow has no filesystem for `run_dir` or cannot read the files, or
    if statistics are missing.
    """
    try:
        filesystem, root = arrow_files(spark, run_dir)
        groups = {
            name: _footers(filesystem, f"{root}/{LOCATION[name]}", schema)
            for name, schema in (("ledger", LEDGER), ("final_log", FINAL_LOG))
        }
    except (pa.ArrowException, OSError) as error:
        raise TakeGeneralPath(f"pyarrow cannot read {run_dir}: {error}") from error
    records = sorted(
        map(_record_group, groups["final_log"]),
        key=lambda group: (group.topic, group.partition, group.first),
    )
    for group, after in pairwise(records):
        same_partition = (group.topic, group.partition) == (after.topic, after.partition)
        if same_partition and group.last >= after.first:
            raise TakeGeneralPath(
                f"row groups of {group.topic}-{group.partition} overlap in offsets"
            )
    return Layout(
        filesystem=filesystem,
        sends=tuple(map(_send_group, groups["ledger"])),
        records=tuple(records),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footer:
    """A row group's statistics: lowest and highest value and number of nulls by column."""

    path: str
    number: int
    rows: int
    ranges: dict[str, tuple[Any, Any]]
    nulls: dict[str, int]

    def range_of(self, column: str) -> tuple[Any, Any]:
        if column not in self.ranges or self.nulls.get(column) != 0:
            raise TakeGeneralPath(f"{self.path} has no statistics of {column}")
        return self.ranges[column]

    def constant(self, *columns: str) -> dict[str, Any]:
        return {
            name: self.ranges[name][0]
            for name in columns
            if self.nulls.get(name) == 0
            and name in self.ranges
            and self.ranges[name][0] == self.ranges[name][1]
            and len(str(self.ranges[name][0])) < _WHOLE_TEXT
        }


def _footers(filesystem: pafs.FileSystem, folder: str, schema: pa.Schema) -> list[_Footer]:
    paths = [entry.path for entry in part_files(filesystem, folder) if entry.size]
    with ThreadPoolExecutor(max_workers=16) as pool:
        return [
            footer
            for footers in pool.map(lambda path: _footers_of(filesystem, path, schema), paths)
            for footer in footers
        ]


def _footers_of(filesystem: pafs.FileSystem, path: str, schema: pa.Schema) -> list[_Footer]:
    with pq.ParquetFile(path, filesystem=filesystem) as file:
        metadata = file.metadata
        if set(schema.names) - set(file.schema_arrow.names):
            raise TakeGeneralPath(f"{path} lacks columns of its table")
        footers = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            ranges, nulls = {}, {}
            for index in range(group.num_columns):
                column = group.column(index)
                statistics = column.statistics
                if statistics is None or column.physical_type == "BOOLEAN":
                    continue
                if statistics.has_null_count:
                    nulls[column.path_in_schema] = statistics.null_count
                if statistics.has_min_max:
                    with suppress(OverflowError):  # a corrupt record's time
                        ranges[column.path_in_schema] = (statistics.min, statistics.max)
            if group.num_rows:
                footers.append(
                    _Footer(
                        path=path, number=number, rows=group.num_rows, ranges=ranges, nulls=nulls
                    )
                )
        return footers


def _send_group(footer: _Footer) -> SendGroup:
    if "offset" not in footer.nulls:
        raise TakeGeneralPath(f"{footer.path} has no statistics of offset")
    without = footer.nulls["offset"]
    if without < footer.rows and "offset" not in footer.ranges:
        raise TakeGeneralPath(f"{footer.path} has no statistics of offset")
    first, last = footer.ranges["offset"] if without < footer.rows else (None, None)
    return SendGroup(
        path=footer.path,
        number=footer.number,
        rows=footer.rows,
        topics=footer.range_of("topic"),
        producers=footer.range_of("producer"),
        sequences=footer.range_of("sequence"),
        first=first,
        last=last,
        without_offset=without,
        constant=footer.constant("topic", "partition", "producer", "outcome"),
    )


def _record_group(footer: _Footer) -> RecordGroup:
    constant = footer.constant("topic", "partition", "state")
    if "topic" not in constant or "partition" not in constant:
        raise TakeGeneralPath(f"a row group of {footer.path} holds more than one partition")
    first, last = footer.range_of("offset")
    return RecordGroup(
        path=footer.path,
        number=footer.number,
        rows=footer.rows,
        topic=constant["topic"],
        partition=constant["partition"],
        first=first,
        last=last,
        constant={key: value for key, value in constant.items() if key == "state"},
    )


def verify_pages(layout: Layout) -> None:
    """Read every column, also those that a comparison does not need.

    Raises `TakeGeneralPath` if a file is damaged: on the general path, Spark reports it.
    """
    sends, records = layout.sends, layout.records
    for path in sorted({group.path for group in sends} | {group.path for group in records}):
        try:
            with pq.ParquetFile(
                path, filesystem=layout.filesystem, page_checksum_verification=True
            ) as file:
                for _ in file.iter_batches(use_threads=False):
                    pass
        except (pa.ArrowException, OSError) as error:
            raise TakeGeneralPath(f"pyarrow cannot read {path}: {error}") from error


def whole(group: RecordGroup) -> bool:
    """Whether all records of the row group are intact, by its statistics."""
    return bool(group.constant.get("state") == RecordState.INTACT)
