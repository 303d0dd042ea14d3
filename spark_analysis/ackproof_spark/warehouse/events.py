"""The `events` table: faults, partitions and brokers of runs as one timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EDGES = ("injected", "verified", "healed", "recovered")


def events(
    *, fault_windows: DataFrame, partition_states: DataFrame, broker_states: DataFrame
) -> DataFrame:
    """Return the run and the columns of `schemas.EVENTS` from `at` on, without troubles.

    A fault has one event for each of its brokers.
    """
    none = F.lit(None)
    edges = F.explode(
        F.array(
            *(
                F.struct(F.col(f"{edge}_at").alias("at"), F.lit(f"fault-{edge}").alias("kind"))
                for edge in _EDGES
            )
        )
    )
    of_faults = (
        fault_windows.select("*", edges.alias("edge"))
        .select(
            "run_id",
            "edge.at",
            "edge.kind",
            F.explode_outer("nodes").alias("node"),
            none.cast("string").alias("topic"),
            none.cast("int").alias("partition"),
            F.format_string("F%d %s of %s", "window", "fault", "target").alias("what"),
        )
        .where("at is not null")
    )
    of_partitions = partition_states.select(
        "run_id",
        "at",
        F.lit("partition-state").alias("kind"),
        F.nullif("leader", F.lit(-1)).alias("node"),
        "topic",
        "partition",
        F.format_string(
            "leader %d, leader epoch %d, ISR %s", "leader", "leader_epoch", _ids("isr")
        ).alias("what"),
    )
    of_brokers = broker_states.select(
        "run_id",
        "at",
        F.lit("broker-state").alias("kind"),
        F.col("broker").alias("node"),
        none.cast("string").alias("topic"),
        none.cast("int").alias("partition"),
        F.format_string("broker %d %s", "broker", "state").alias("what"),
    )
    return of_faults.unionByName(of_partitions).unionByName(of_brokers)


def _ids(column: str) -> Column:
    return F.concat(F.lit("{"), F.array_join(column, ", "), F.lit("}"))
