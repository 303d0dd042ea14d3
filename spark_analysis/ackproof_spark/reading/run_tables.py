"""The tables of a run in Spark, each opened once, and the frames that every check starts from.

`suspects` aggregates ledger and final log once, by name, and keeps only names that some check may
report. So the checks are cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import compress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackproof_spark.errors import RunError
from ackproof_spark.spark.arrow_files import arrow_files, part_files
from ackproof_spark.spark.functions import (
    DataFrame,
    F,
    SparkSession,
    Window,
    no_rows,
    spark_schema,
    union,
)
from ackproof_spark.spark.session import driver_here
from ackproof_spark.spark.small_data import from_arrow
from ackproof_spark.spark.storage import LITERALLY, address
from ackproof_spark.tables import (
    LOCATION,
    OPTIONAL,
    PARTS,
    SCHEMA_VERSION,
    SCHEMAS,
    Outcome,
    RecordState,
)

#: The columns that identify a partition, a send within its partition, and an offset.
PARTITION = ["topic", "partition"]
NAME = [*PARTITION, "producer", "sequence"]
PLACE = [*PARTITION, "offset"]

#: Tables up to this size are read by this process, without a Spark job.
_SMALL_BYTES = 1 << 20

#: Tables that a killed run may lack besides `tables.OPTIONAL`: they are collected last.
_COLLECTED_LAST = ("partition_states", "broker_states")


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """The tables of a run by their names (`tables.LOCATION`), each opened at its first use.

    `run_dir` is a folder, or the address of one as text.
    """

    spark: SparkSession
    run_dir: Path | str
    _opened: dict[str, DataFrame] = field(default_factory=dict, init=False, repr=False)
    _local: set[str] = field(default_factory=set, init=False, repr=False)

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table, empty if it is optional and missing; a small table has one partition.

        Raises `RunError` if a table is missing that every run has.
        """
        rows = self.listed(name)
        return rows.coalesce(1) if name in self._local else rows

    def listed(self, name: str) -> DataFrame:
        """Return a table to be collected; for a small table this takes no Spark job."""
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def forget(self, name: str) -> None:
        """Open a table again at its next use, after it was written."""
        self._opened.pop(name, None)
        self._local.discard(name)

    def put(self, name: str, rows: DataFrame) -> None:
        """Use these rows as the table from now on, which stays as it is stored."""
        self._local.discard(name)
        self._opened[name] = rows

    @cached_property
    def _files(self) -> tuple[pafs.FileSystem, str] | None:
        """Arrow's file system of the run, and its folder there; None if only Spark has one.

        With Spark Connect the server reads everything: this process may see other files.
        """
        if not driver_here(self.spark):
            return None
        try:
            filesystem, root = arrow_files(self.spark, self.run_dir)
            filesystem.get_file_info(root)  # Arrow may lack the keys that Spark has
        except (pa.ArrowException, OSError, ValueError):
            return None
        return filesystem, root

    def has(self, name: str) -> bool:
        if self._files:
            filesystem, root = self._files
            return bool(
                filesystem.get_file_info(f"{root}/{LOCATION[name]}").type != pafs.FileType.NotFound
            )
        try:
            read_table(self.spark, self.run_dir, name, pa.schema([]))
        except RunError:
            return False
        return True

    def rows(self, *names: str) -> int:
        """Return the total number of rows of these tables, from their footers."""
        there = [name for name in names if self.has(name)]
        if self._files:
            with suppress(pa.ArrowException, OSError):  # Spark's error is clearer
                opened = (file for name in there for file in self._opened_parts(name))
                return sum(file.metadata.num_rows for file in opened)
        tables = [read_table(self.spark, self.run_dir, name, pa.schema([])) for name in there]
        return int(union(tables).count()) if tables else 0

    def head(self, name: str) -> list[tuple[int, str]]:
        """Return schema version and run id of a table's first row, if any."""
        columns = ["schema_version", "run_id"]
        if self._files:
            with suppress(pa.ArrowException, OSError, KeyError):
                for file in self._opened_parts(name):
                    for batch in file.iter_batches(1, columns=columns):
                        return [tuple(batch.to_pylist()[0][column] for column in columns)]
        return [tuple(row) for row in self[name].select(columns).limit(1).collect()]

    def _open(self, name: str) -> DataFrame:
        schema = SCHEMAS[name]
        if name in (*OPTIONAL, *_COLLECTED_LAST) and not self.has(name):
            return no_rows(self.spark, schema)
        if self._files:
            small = self._small(name, schema)
            if small is not None:
                self._local.add(name)
                return from_arrow(self.spark, small)
        return read_table(self.spark, self.run_dir, name, schema)

    def _parts(self, name: str) -> list[pafs.FileInfo]:
        assert self._files
        filesystem, root = self._files
        return part_files(filesystem, f"{root}/{LOCATION[name]}")

    def _opened_parts(self, name: str) -> Iterator[pq.ParquetFile]:
        assert self._files
        for part in self._parts(name):
            with pq.ParquetFile(
                part.path, filesystem=self._files[0], page_checksum_verification=True
            ) as file:
                yield file

    def _small(self, name: str, schema: pa.Schema) -> pa.Table | None:
        """Return a small table as Spark reads it, with nulls for missing columns; else None."""
        nullable = pa.schema([column.with_nullable(True) for column in schema])
        read = []
        try:
            sizes = [part.size for part in self._parts(name)]
            if not sizes or sum(sizes) > _SMALL_BYTES:
                return None
            for file in self._opened_parts(name):
                rows = file.read()
                columns = [
                    rows[column.name].cast(column.type)
                    if column.name in rows.column_names
                    else pa.nulls(rows.num_rows, column.type)
                    for column in nullable
                ]
                read.append(pa.table(columns, schema=nullable))
        except (pa.ArrowException, OSError):
            return None  # Spark's error is clearer
        return pa.concat_tables(read).combine_chunks()


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def cached_for_run(make: Callable[[RunTables], DataFrame]) -> Callable[[RunTables], DataFrame]:
    """Call `make` once for each `RunTables`, and cache its result with `RunTables.keep`."""

    @wraps(make)
    def once(tables: RunTables) -> DataFrame:
        name = f"{make.__module__}.{make.__qualname__}"
        if name not in tables._cached:
            tables._cached[name] = tables.keep(make(tables))
        return tables._cached[name]

    return once


@dataclass(frozen=True, kw_only=True)
class RunTables:
    """The tables of a run (columns: `tables`). `run_id` is empty if all tables are.

    `undecidable` and `identities` are None unless an application wrote. `keys`: the number of keys
    of each compacted topic; the key of a send is its sequence modulo this number. `keep` caches
    frames that several checks start from.
    """

    run_id: str
    ledger: DataFrame
    final_log: DataFrame
    partition_ends: DataFrame
    fault_windows: DataFrame
    undecidable: DataFrame | None = None
    identities: DataFrame | None = None
    keys: Mapping[str, int] = field(default_factory=dict)
    keep: Callable[[DataFrame], DataFrame] = _as_it_is
    _cached: dict[str, DataFrame] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def read(cls, spark: SparkSession, run_dir: Path | str) -> RunTables:
        return cls.of(StoredRun(spark=spark, run_dir=run_dir))

    @classmethod
    def of(cls, run: StoredRun) -> RunTables:
        """Return the tables of a run.

        Raises `RunError` if a table is missing, of another format, or of another run.
        """
        names = ("ledger", "final_log", "partition_ends", "fault_windows")
        opened = {name: run[name] for name in names}
        return cls(
            run_id=_the_run(run, names),
            **opened | {"fault_windows": run.listed("fault_windows")},
            undecidable=run["undecidable"] if run.has("undecidable") else None,
            identities=run["identities"] if run.has("identities") else None,
        )

    @cached_property
    def suspects(self) -> DataFrame:
        """One row for each name that some check may report.

        Of the send: `acked`, `claimed` (acked or unknown; both null if it was never sent),
        `acked_offset`, `sent_at`, `resolved_at`. Of its intact records in the partition: `copies`
        and `first_offset`. `absent`: acked, without a copy. `displaced`: acked at another offset
        than its first copy. `phantom`: has a copy, but is not claimed. `ahead`: the highest
        sequence of its producer at a lower offset, if higher than its own. `withdrawn`: has a
        copy, but its transaction was aborted.
        """
        copies, sequence = F.col("copies"), F.col("sequence")
        written = copies > 0
        claimed, aborted = (F.coalesce(key, F.lit(False)) for key in ("claimed", "aborted"))
        in_log_order = (
            Window.partitionBy("topic", "partition", "producer")
            .orderBy("first_offset")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        highest_before = F.max(F.when(written & claimed, sequence)).over(in_log_order)
        behind = written & claimed & (highest_before > sequence)
        by_name = self._by_name().withColumns(
            {
                "absent": F.coalesce("acked", F.lit(False)) & ~written,
                "displaced": F.coalesce("acked", F.lit(False))
                & F.coalesce(F.col("acked_offset") != F.col("first_offset"), F.lit(False)),
                "phantom": written & ~claimed & ~aborted,
                "withdrawn": written & ~claimed & aborted,
                "ahead": F.when(behind, highest_before),
            }
        )
        return self.keep(
            by_name.where(
                "absent or displaced or copies > 1 or phantom or withdrawn or ahead is not null"
            )
        )

    def _by_name(self) -> DataFrame:
        """Return sends and intact records, one row for each name.

        An aggregation instead of a join is twice as fast: its columns have fixed width, so that
        Spark aggregates in place.
        """
        outcome = F.col("outcome")
        of_send = {
            "acked": outcome == Outcome.ACKED,
            "claimed": outcome.isin(Outcome.ACKED, Outcome.UNKNOWN),
            "aborted": outcome == Outcome.ABORTED,
            "acked_offset": F.col("offset"),
            "sent_at": F.col("sent_at"),
            "resolved_at": F.col("resolved_at"),
        }
        sends = self.ledger.select(*NAME, *(column.alias(key) for key, column in of_send.items()))
        records = self.final_log.where(F.col("state") == RecordState.INTACT).select(
            *NAME, F.col("offset").alias("at")
        )
        return (
            sends.unionByName(records, allowMissingColumns=True)
            .groupBy(*NAME)
            .agg(
                *(F.max(key).alias(key) for key in of_send),
                F.min("at").alias("first_offset"),
                F.count("at").alias("copies"),
            )
        )

    @cached_property
    def damaged(self) -> DataFrame:
        return self.final_log.where(F.col("state") != RecordState.INTACT)

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """Number of sends by outcome."""
        rows = self.ledger.groupBy("outcome").count().collect()
        return {row["outcome"]: row["count"] for row in rows}

    @property
    def records(self) -> DataFrame:
        """Every record of the final log, also if `final_log` has only a part."""
        return self.final_log

    @property
    def rows(self) -> int:
        """Number of rows of the larger table, ledger or final log, or an upper bound."""
        records: int = self.final_log.count()
        return max(sum(self.outcomes.values()), records)

    @cached_property
    def last_offsets(self) -> DataFrame:
        """The last offset of each partition that has records: topic, partition, last."""
        return self.final_log.groupBy("topic", "partition").agg(F.max("offset").alias("last"))

    @cached_property
    def windows(self) -> list[dict[str, int | None]]:
        """Start and end of each fault window in microseconds since 1970, the latest first."""
        rows = self.fault_windows.select(
            "window",
            F.unix_micros("injected_at").alias("injected_at"),
            F.unix_micros(F.coalesce("recovered_at", "healed_at")).alias("until"),
        ).collect()
        windows = [row.asDict() for row in rows]
        return sorted(windows, key=lambda w: (w["injected_at"], w["window"]), reverse=True)


def _the_run(run: StoredRun, names: Sequence[str]) -> str:
    """Return the run id in the first rows of these tables, '' if they have no rows."""
    rows = [row for name in names for row in run.head(name)]
    versions = {version for version, _ in rows} - {SCHEMA_VERSION}
    if versions:
        known = ", ".join(map(str, sorted(versions)))
        raise RunError(
            f"{run.run_dir} has tables of schema version {known}, and "
            f"this ackproof knows version {SCHEMA_VERSION}: read it with the ackproof that wrote it"
        )
    runs = sorted({run_id for _, run_id in rows})
    if len(runs) > 1:
        raise RunError(f"{run.run_dir} has tables of more than one run: {', '.join(runs)}")
    return runs[0] if runs else ""


def read_tables(spark: SparkSession, run_dirs: Sequence[str], name: str) -> DataFrame:
    """Return one table of many runs, at the addresses of their directories, read in one scan.

    Raises `RunError` if a run lacks a table that every run has.
    """
    has = [StoredRun(spark=spark, run_dir=run_dir).has(name) for run_dir in run_dirs]
    places = [f"{address(run_dir)}/{LOCATION[name]}" for run_dir in run_dirs]
    if not all(has) and name not in (*OPTIONAL, *_COLLECTED_LAST):
        raise RunError(
            f"there is no table {name} at {places[has.index(False)]}: this is not the directory of "
            "a run that reached its analysis"
        )
    if not any(has):
        return no_rows(spark, SCHEMAS[name])
    reader = spark.read.schema(spark_schema(SCHEMAS[name])).options(**LITERALLY)
    return reader.parquet(*compress(places, has), pathGlobFilter=PARTS)


def read_table(spark: SparkSession, run_dir: Path | str, name: str, schema: pa.Schema) -> DataFrame:
    """Return one of `tables.LOCATION`, empty if its folder is; `RunError` if missing."""
    from pyspark.errors import AnalysisException

    place = f"{address(run_dir)}/{LOCATION[name]}"
    try:
        reader = spark.read.schema(spark_schema(schema)).options(**LITERALLY)
        table = reader.parquet(place, pathGlobFilter=PARTS)
        _ = table.schema  # Spark Connect would report a missing path only later
        return table
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise RunError(
            f"{run_dir} has no table {name} (looked for {place}): it is not the directory of a "
            "run that reached its analysis"
        ) from None
