"""The tables that only the checks of transactions, consumers and the probe need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ackproof_spark.reading.run_tables import read_optional
from ackproof_spark.tables import (
    CONSUMER_EVENTS,
    EFFECTS,
    HANGING_TRANSACTIONS,
    PARTITION_STATES,
    PROBE,
    READS,
    TRANSACTIONS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTables:
    """Tables of `ackproof_spark.tables` by their names; one that the run lacks is empty."""

    transactions: DataFrame
    hanging_transactions: DataFrame
    reads: DataFrame
    effects: DataFrame
    consumer_events: DataFrame
    probe: DataFrame
    partition_states: DataFrame

    @classmethod
    def read(cls, spark: SparkSession, run_dir: Path | str) -> Self:
        return cls(
            transactions=read_optional(spark, run_dir, "transactions", TRANSACTIONS),
            hanging_transactions=read_optional(
                spark, run_dir, "hanging_transactions", HANGING_TRANSACTIONS
            ),
            reads=read_optional(spark, run_dir, "reads", READS),
            effects=read_optional(spark, run_dir, "effects", EFFECTS),
            consumer_events=read_optional(spark, run_dir, "consumer_events", CONSUMER_EVENTS),
            probe=read_optional(spark, run_dir, "probe", PROBE),
            partition_states=read_optional(spark, run_dir, "partition_states", PARTITION_STATES),
        )
