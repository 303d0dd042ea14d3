"""What the forensics of a run start from: the replicas in sync, and small tables as rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_sync(run: StoredRun) -> DataFrame:
    """Return the complete replica logs of the final ISR, with the column `leads`.

    Other replicas may lag, or may not have truncated yet. Without the controller's log, every
    replica counts.
    """
    last = (
        run["partition_states"]
        .groupBy("topic", "partition")
        .agg(F.max_by(F.struct("isr", "leader"), "metadata_offset").alias("last"))
    )
    known = F.col("last").isNotNull()
    return (
        run["replica_logs"]
        .where("complete")
        .join(F.broadcast(last), ["topic", "partition"], "left")
        .where(~known | F.array_contains("last.isr", F.col("broker")))
        .withColumn("leads", known & (F.col("last.leader") == F.col("broker")))
        .drop("last")
    )


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return a small frame's rows, with time zones (Spark's own rows drop them)."""
    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    in_micros = frame.withColumns({name: F.unix_micros(name) for name in times})
    rows = [row.asDict() for row in in_micros.collect()]
    for row in rows:
        for name in times:
            if row[name] is not None:
                row[name] = EPOCH + timedelta(microseconds=row[name])
    return rows
