"""The tables of one run as Spark sees them, and the two small frames every check starts from.

The big tables meet once, in `suspects`: sends against records, by name. What is left is only what
some check will report, or nothing; so the checks are cheap, and none repeats the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ackproof.spark_analysis.errors import AnalysisError
from ackproof.spark_analysis.tables import (
    FAULT_WINDOWS,
    FINAL_LOG,
    LEDGER,
    LOCATION,
    PARTITION_ENDS,
    Outcome,
    RecordState,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What names a send within its partition.
NAME = ["topic", "partition", "producer", "sequence"]


@dataclass(frozen=True, kw_only=True)
class RunTables:
    """What a run left: see `tables` for the columns. `run_id` is empty if every table is."""

    run_id: str
    ledger: DataFrame
    final_log: DataFrame
    partition_ends: DataFrame
    fault_windows: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, run_dir: Path | str) -> RunTables:
        """Return the tables below `run_dir`, a folder or an address that Spark can read.

        Raises `AnalysisError` if a table is missing.
        """
        ledger = read_table(spark, run_dir, "ledger", LEDGER)
        final_log = read_table(spark, run_dir, "final_log", FINAL_LOG)
        ends = read_table(spark, run_dir, "partition_ends", PARTITION_ENDS)
        run_id = next(
            (row["run_id"] for table in (ends, ledger, final_log) for row in table.take(1)), ""
        )
        return cls(
            run_id=run_id,
            ledger=ledger,
            final_log=final_log,
            partition_ends=ends,
            fault_windows=read_table(spark, run_dir, "fault_windows", FAULT_WINDOWS),
        )

    @cached_property
    def suspects(self) -> DataFrame:
        """Sends and records that some check reports, matched by name within their partition.

        One row a name: `outcome`, `error`, `acked_offset`, `sent_at`, `resolved_at` (null unless
        sent), `copies` and `first_offset` (null unless intact in the log), `phantom`, and
        `ahead`: the record before it in the log with the highest sequence of its producer, if
        that is higher than its own.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        sends = self.ledger.select(
            *NAME, "outcome", "error", F.col("offset").alias("acked_offset"), *_TIMES
        )
        records = (
            self.final_log.where(F.col("state") == RecordState.INTACT)
            .groupBy(*NAME)
            .agg(F.min("offset").alias("first_offset"), F.count("*").alias("copies"))
        )
        written = F.col("copies").isNotNull()
        claimed = F.col("outcome").isin(Outcome.ACKED, Outcome.UNKNOWN)
        in_log_order = (
            Window.partitionBy("topic", "partition", "producer")
            .orderBy("first_offset")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        this = F.struct("sequence", F.col("first_offset").alias("offset"))
        highest_before = F.max(F.when(written & claimed, this)).over(in_log_order)
        behind = written & claimed & (F.col("ahead.sequence") > F.col("sequence"))
        return (
            sends.join(records, NAME, "full_outer")
            .withColumn("phantom", written & ~F.coalesce(claimed, F.lit(False)))
            .withColumn("ahead", highest_before)
            .withColumn("ahead", F.when(behind, F.col("ahead")))
            .where(
                ((F.col("outcome") == Outcome.ACKED) & ~written)
                | (F.col("copies") > 1)
                | F.col("phantom")
                | F.col("ahead").isNotNull()
            )
        )

    @cached_property
    def damaged(self) -> DataFrame:
        """The records of the final log that are not intact."""
        from pyspark.sql import functions as F  # noqa: N812

        return self.final_log.where(F.col("state") != RecordState.INTACT)


_TIMES = ("sent_at", "resolved_at")


def read_table(spark: SparkSession, run_dir: Path | str, name: str, schema: pa.Schema) -> DataFrame:
    """Return one of `tables.LOCATION`, empty if its folder is; `AnalysisError` if missing."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.pandas.types import from_arrow_schema

    place = f"{run_dir}/{LOCATION[name]}"
    try:
        return spark.read.schema(from_arrow_schema(schema)).parquet(place)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise AnalysisError(
            f"{run_dir} has no table {name} (looked for {place}): it is not the directory of a "
            "run that reached its analysis"
        ) from None
