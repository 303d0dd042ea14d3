"""The tables of the cluster's own evidence; each may be absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ackproof_spark.errors import AnalysisError
from ackproof_spark.reading.run_tables import read_table
from ackproof_spark.spark.functions import F, no_rows
from ackproof_spark.tables import (
    BROKER_EVENTS,
    PARTITION_STATES,
    REPLICA_BATCHES,
    REPLICA_LOGS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The cluster's own evidence (columns: `tables`). An absent table is empty."""

    replica_logs: DataFrame
    replica_batches: DataFrame
    partition_states: DataFrame
    broker_events: DataFrame
    #: Whether the replicas' segments were collected.
    has_replicas: bool

    @classmethod
    def read(cls, spark: SparkSession, run_dir: Path | str) -> Evidence:
        logs, has_replicas = _read(spark, run_dir, "replica_logs", REPLICA_LOGS)
        return cls(
            replica_logs=logs,
            replica_batches=_read(spark, run_dir, "replica_batches", REPLICA_BATCHES)[0],
            partition_states=_read(spark, run_dir, "partition_states", PARTITION_STATES)[0],
            broker_events=_read(spark, run_dir, "broker_events", BROKER_EVENTS)[0],
            has_replicas=has_replicas,
        )

    def kept(self, keep: Callable[[DataFrame], DataFrame]) -> Evidence:
        """Return this evidence with each table passed through `keep`."""
        return replace(
            self,
            replica_logs=keep(self.replica_logs),
            replica_batches=keep(self.replica_batches),
            partition_states=keep(self.partition_states),
            broker_events=keep(self.broker_events),
        )

    def in_sync(self) -> DataFrame:
        """Return the complete replica logs of the final ISR, with the column `leads`.

        Other replicas may lag, or may not have truncated yet. Without the controller's log, every
        replica counts.
        """
        last = self.partition_states.groupBy("topic", "partition").agg(
            F.max_by(F.struct("isr", "leader"), "metadata_offset").alias("last")
        )
        known = F.col("last").isNotNull()
        return (
            self.replica_logs.where("complete")
            .join(F.broadcast(last), ["topic", "partition"], "left")
            .where(~known | F.array_contains("last.isr", F.col("broker")))
            .withColumn("leads", known & (F.col("last.leader") == F.col("broker")))
            .drop("last")
        )


def held(frame: DataFrame) -> list[dict[str, Any]]:
    """Return a small frame's rows, with time zones (Spark's own rows drop them)."""
    times = [name for name, kind in frame.dtypes if kind == "timestamp"]
    in_micros = frame.withColumns({name: F.unix_micros(name) for name in times})
    rows = [row.asDict() for row in in_micros.collect()]
    for row in rows:
        for name in times:
            if row[name] is not None:
                row[name] = EPOCH + timedelta(microseconds=row[name])
    return rows


def _read(
    spark: SparkSession, run_dir: Path | str, name: str, schema: pa.Schema
) -> tuple[DataFrame, bool]:
    try:
        return read_table(spark, run_dir, name, schema), True
    except AnalysisError:
        return no_rows(spark, schema), False
