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
        """Names that some check reports: sends and records, matched within their partition.

        One row a name. Of the send: `acked`, `claimed` (acked or unknown; both null if never
        sent), `acked_offset`, `sent_at`, `resolved_at`. Of its intact records: `copies` and
        `first_offset`. `absent`: acked, no copy. `phantom`: a copy, not claimed. `ahead`: the
        highest of its producer's sequences that stand before it, if higher than its own.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        copies, sequence = F.col("copies"), F.col("sequence")
        written = copies > 0
        claimed = F.coalesce("claimed", F.lit(False))
        in_log_order = (
            Window.partitionBy("topic", "partition", "producer")
            .orderBy("first_offset")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        highest_before = F.max(F.when(written & claimed, sequence)).over(in_log_order)
        behind = written & claimed & (highest_before > sequence)
        return (
            self._by_name()
            .withColumns(
                {
                    "absent": F.coalesce("acked", F.lit(False)) & ~written,
                    "phantom": written & ~claimed,
                    "ahead": F.when(behind, highest_before),
                }
            )
            .where("absent or copies > 1 or phantom or ahead is not null")
        )

    def _by_name(self) -> DataFrame:
        """Return sends and intact records, one row a name.

        One aggregation instead of a join: what it keeps is all of fixed width, which Spark
        aggregates in place, at twice the speed.
        """
        from pyspark.sql import functions as F  # noqa: N812

        outcome = F.col("outcome")
        of_send = {
            "acked": outcome == Outcome.ACKED,
            "claimed": outcome.isin(Outcome.ACKED, Outcome.UNKNOWN),
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
        from pyspark.sql import functions as F  # noqa: N812

        return self.final_log.where(F.col("state") != RecordState.INTACT)

    @cached_property
    def windows(self) -> list[dict[str, int | None]]:
        """When each fault held, in microseconds since 1970, the latest injected first."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = self.fault_windows.select(
            "window",
            F.unix_micros("injected_at").alias("injected_at"),
            F.unix_micros(F.coalesce("recovered_at", "healed_at")).alias("until"),
        ).collect()
        windows = [row.asDict() for row in rows]
        return sorted(windows, key=lambda w: (w["injected_at"], w["window"]), reverse=True)


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
