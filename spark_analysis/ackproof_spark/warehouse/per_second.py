"""The `metrics` table: runs second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.spark.functions import F, Window
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome
from ackproof_spark.warehouse.lag import PARTITION, lag, second

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

#: Quantiles are values that occurred; their rank is off by at most 1/this of a second's acks.
_ACCURACY = 10_000


def per_second(ledger: DataFrame, reads: DataFrame) -> DataFrame:
    """Return the run and the columns of `schemas.METRICS` from `at` on, for each second of a run.

    A run without sends has no row. A send that never resolved, because its producer died, counts
    when it was sent.
    """
    workload = ledger.where(f"producer < {PROBE_PRODUCERS}")
    sends = workload.where("sent_at is not null or resolved_at is not null").select(
        *PARTITION,
        "outcome",
        second(F.coalesce("sent_at", "resolved_at")).alias("sent_s"),
        second(F.coalesce("resolved_at", "sent_at")).alias("done_s"),
        F.when(
            F.col("outcome") == Outcome.ACKED,
            F.unix_micros("resolved_at") - F.unix_micros("sent_at"),
        ).alias("latency"),
    )
    sent = sends.groupBy("run_id", F.col("sent_s").alias("s")).agg(F.count("*").alias("sent"))
    done = sends.groupBy("run_id", F.col("done_s").alias("s")).agg(
        *(F.count_if(F.col("outcome") == outcome).alias(outcome.value) for outcome in Outcome),
        F.percentile_approx("latency", list(_QUANTILES.values()), _ACCURACY).alias("quantiles"),
        F.max("latency").alias("longest"),
    )
    seconds = (
        sends.groupBy("run_id")
        .agg(F.min("sent_s").alias("first"), F.max("done_s").alias("last"))
        .select("run_id", F.explode(F.sequence("first", "last")).alias("s"))
    )
    counts = ("sent", *(outcome.value for outcome in Outcome))
    key = ["run_id", "s"]
    return (
        _availability(sends, seconds)
        .join(sent, key, "left")
        .join(done, key, "left")
        .join(lag(ledger, reads, seconds), key, "left")
        .orderBy(*key)
        .select(
            "run_id",
            F.timestamp_seconds("s").alias("at"),
            *(F.coalesce(name, F.lit(0)).cast("bigint").alias(name) for name in counts),
            *(
                (F.col("quantiles")[index] / 1e3).alias(f"latency_{name}_ms")
                for index, name in enumerate(_QUANTILES)
            ),
            (F.col("longest") / 1e3).alias("latency_max_ms"),
            "availability",
            "lag",
        )
    )


def _availability(sends: DataFrame, seconds: DataFrame) -> DataFrame:
    """Return every second of `seconds` with its availability.

    Of the partitions that had a send in flight at some time in the second, the share that
    acknowledged one in it. A partition's sends in flight in a second are those sent until its end,
    less those resolved before its start.
    """
    zero = F.lit(0)
    acked = (F.col("outcome") == Outcome.ACKED).cast("int")
    grid = sends.select(*PARTITION).distinct().join(seconds, "run_id")
    changes = (
        sends.select(*PARTITION, F.col("sent_s").alias("s"), F.lit(1).alias("sent"), zero, zero)
        .union(sends.select(*PARTITION, "done_s", zero, F.lit(1), acked))
        .union(grid.select(*PARTITION, "s", zero, zero, zero))
        .toDF(*PARTITION, "s", "sent", "done", "acked")
        .groupBy(*PARTITION, "s")
        .agg(*(F.sum(name).alias(name) for name in ("sent", "done", "acked")))
    )
    by_time = Window.partitionBy(*PARTITION).orderBy("s")
    until_now = by_time.rowsBetween(Window.unboundedPreceding, 0)
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    in_flight = F.sum("sent").over(until_now) - F.coalesce(F.sum("done").over(before), zero)
    available = F.when(F.col("in_flight") > 0, (F.col("acked") > 0).cast("double"))
    return (
        changes.withColumn("in_flight", in_flight)
        .groupBy("run_id", "s")
        .agg(F.avg(available).alias("availability"))
    )
