"""The tables of one run in Spark, and the two small frames that every check starts from.

Ledger and final log are aggregated once, in `suspects`: sends against records, by name. Only names
that some check may report remain, so that the checks are cheap and none repeats the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ackproof_spark.errors import RunError
from ackproof_spark.spark.functions import F, Window, no_rows, spark_schema, union
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import (
    FAULT_WINDOWS,
    FINAL_LOG,
    LEDGER,
    LOCATION,
    OPTIONAL,
    PARTITION_ENDS,
    PARTS,
    SCHEMA_VERSION,
    UNDECIDABLE,
    Outcome,
    RecordState,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The columns that identify a send within its partition.
NAME = ["topic", "partition", "producer", "sequence"]

#: The columns that identify an offset of a partition.
PLACE = ["topic", "partition", "offset"]


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def kept(make: Callable[[RunTables], DataFrame]) -> Callable[[RunTables], DataFrame]:
    """Call `make` once for the same tables, and keep its result as `RunTables.keep` says."""

    @wraps(make)
    def once(tables: RunTables) -> DataFrame:
        name = f"{make.__module__}.{make.__qualname__}"
        if name not in tables._kept:
            tables._kept[name] = tables.keep(make(tables))
        return tables._kept[name]

    return once


@dataclass(frozen=True, kw_only=True)
class RunTables:
    """The tables of a run (columns: `tables`). `run_id` is empty if every table is.

    `undecidable` is None unless an application wrote. `keys`: the number of keys of each topic that
    is compacted; a send has the key of its sequence modulo this number. `keep` caches frames that
    several checks start from; the default does not.
    """

    run_id: str
    ledger: DataFrame
    final_log: DataFrame
    partition_ends: DataFrame
    fault_windows: DataFrame
    undecidable: DataFrame | None = None
    keys: Mapping[str, int] = field(default_factory=dict)
    keep: Callable[[DataFrame], DataFrame] = _as_it_is
    _kept: dict[str, DataFrame] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def read(cls, spark: SparkSession, run_dir: Path | str) -> RunTables:
        """Return the tables below `run_dir`, a folder or an address that Spark can read.

        Raises `RunError` if a table is missing, of another format, or of another run.
        """
        ledger = read_table(spark, run_dir, "ledger", LEDGER)
        final_log = read_table(spark, run_dir, "final_log", FINAL_LOG)
        ends = read_table(spark, run_dir, "partition_ends", PARTITION_ENDS)
        windows = read_table(spark, run_dir, "fault_windows", FAULT_WINDOWS)
        return cls(
            run_id=_the_run(run_dir, (ledger, final_log, ends, windows)),
            ledger=ledger,
            final_log=final_log,
            partition_ends=ends,
            fault_windows=windows,
            undecidable=read_table(spark, run_dir, "undecidable", UNDECIDABLE)
            if has_table(spark, run_dir, "undecidable")
            else None,
        )

    @cached_property
    def suspects(self) -> DataFrame:
        """Names that some check may report: sends and records, matched within their partition.

        One row for each name. Of the send: `acked`, `claimed` (acked or unknown; both null if it
        was never sent), `acked_offset`, `sent_at`, `resolved_at`. Of its intact records: `copies`
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

        One aggregation instead of a join: its columns have fixed width, so that Spark aggregates
        in place, twice as fast.
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
        """The records of the final log that are not intact."""
        return self.keep(self.final_log.where(F.col("state") != RecordState.INTACT))

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """Number of sends by outcome."""
        rows = self.ledger.groupBy("outcome").count().collect()
        return {row["outcome"]: row["count"] for row in rows}

    @property
    def records(self) -> DataFrame:
        """Every record of the final log, also where `final_log` has but some of them."""
        return self.final_log

    @property
    def rows(self) -> int:
        """Number of rows of the larger of ledger and final log, or an upper bound."""
        records: int = self.final_log.count()
        return max(sum(self.outcomes.values()), records)

    @cached_property
    def last_offsets(self) -> DataFrame:
        """The last offset of each partition that has records: topic, partition, last."""
        return self.final_log.groupBy("topic", "partition").agg(F.max("offset").alias("last"))

    @cached_property
    def windows(self) -> list[dict[str, int | None]]:
        """Start and end of each fault window in microseconds since 1970, latest injection first."""
        rows = self.fault_windows.select(
            "window",
            F.unix_micros("injected_at").alias("injected_at"),
            F.unix_micros(F.coalesce("recovered_at", "healed_at")).alias("until"),
        ).collect()
        windows = [row.asDict() for row in rows]
        return sorted(windows, key=lambda w: (w["injected_at"], w["window"]), reverse=True)


def _the_run(run_dir: Path | str, tables: Sequence[DataFrame]) -> str:
    """Return the run id of these tables, read from one row of each; empty if they are."""
    ids = [table.select("schema_version", "run_id").limit(1) for table in tables]
    rows = union(ids).collect()
    versions = {row["schema_version"] for row in rows} - {SCHEMA_VERSION}
    if versions:
        raise RunError(
            f"{run_dir} has tables of schema version {', '.join(map(str, sorted(versions)))}, and "
            f"this ackproof knows version {SCHEMA_VERSION}: read it with the ackproof that wrote it"
        )
    runs = sorted({row["run_id"] for row in rows})
    if len(runs) > 1:
        raise RunError(f"{run_dir} has tables of more than one run: {', '.join(runs)}")
    return runs[0] if runs else ""


def read_optional(
    spark: SparkSession, run_dir: Path | str, name: str, schema: pa.Schema
) -> DataFrame:
    """Return one of `tables.OPTIONAL`, empty if the run has none."""
    if has_table(spark, run_dir, name):
        return read_table(spark, run_dir, name, schema)
    return no_rows(spark, schema)


#: What a run may lack besides `tables.OPTIONAL`: it was killed before these were collected.
_COLLECTED_LAST = ("partition_states", "broker_states")


def read_tables(
    spark: SparkSession, run_dirs: Sequence[str], name: str, schema: pa.Schema
) -> DataFrame:
    """Return one table of many runs on a file system of this machine, read in one scan.

    Raises `RunError` if a run lacks a table that every run has.
    """
    places = [Path(run_dir) / LOCATION[name] for run_dir in run_dirs]
    found = [place for place in places if place.exists()]
    if len(found) < len(places) and name not in (*OPTIONAL, *_COLLECTED_LAST):
        missing = next(place for place in places if not place.exists())
        raise RunError(
            f"there is no table {name} at {missing}: this is not the directory of a run that "
            "reached its analysis"
        )
    kind = spark_schema(schema)
    if not found:
        return spark.createDataFrame([], kind)
    places_found = (address(place) for place in found)
    return spark.read.schema(kind).parquet(*places_found, pathGlobFilter=PARTS)


def has_table(spark: SparkSession, run_dir: Path | str, name: str) -> bool:
    """Return whether the run has left a table."""
    if isinstance(run_dir, Path):
        return (run_dir / LOCATION[name]).exists()
    try:
        read_table(spark, run_dir, name, pa.schema([]))
    except RunError:
        return False
    return True


def rows_of(spark: SparkSession, run_dir: Path | str, names: Iterable[str]) -> int:
    """Return the number of rows of these tables together, read from their footers."""
    no_columns = pa.schema([])
    there = [
        read_table(spark, run_dir, name, no_columns)
        for name in names
        if has_table(spark, run_dir, name)
    ]
    return union(there).count() if there else 0


def read_table(spark: SparkSession, run_dir: Path | str, name: str, schema: pa.Schema) -> DataFrame:
    """Return one of `tables.LOCATION`, empty if its folder is; `RunError` if missing."""
    from pyspark.errors import AnalysisException

    place = f"{address(run_dir)}/{LOCATION[name]}"
    try:
        table = spark.read.schema(spark_schema(schema)).parquet(place, pathGlobFilter=PARTS)
        _ = table.schema  # analysed now: Spark Connect would report a missing path only later
        return table
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise RunError(
            f"{run_dir} has no table {name} (looked for {place}): it is not the directory of a "
            "run that reached its analysis"
        ) from None
