"""The `metrics` table: a run second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.tables import Outcome
from ackproof_spark.warehouse.lag import lag
from ackproof_spark.warehouse.seconds import second

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

#: Quantiles are values that occurred; their rank is off by at most 1/this of a second's acks.
_ACCURACY = 10_000

_PLACE = ["topic", "partition"]


def per_second(ledger: DataFrame, reads: DataFrame) -> DataFrame:
    """Return the columns of `schemas.METRICS` from `at` on; empty if nothing was sent.

    A send that never resolved, because its producer died, counts when it was sent.
    """
    from pyspark.sql import functions as F  # noqa: N812

    sends = ledger.where("sent_at is not null or resolved_at is not null").select(
        *_PLACE,
        "outcome",
        second(F.coalesce("sent_at", "resolved_at")).alias("sent_s"),
        second(F.coalesce("resolved_at", "sent_at")).alias("done_s"),
        F.when(
            F.col("outcome") == Outcome.ACKED,
            F.unix_micros("resolved_at") - F.unix_micros("sent_at"),
        ).alias("latency"),
    )
    sent = sends.groupBy(F.col("sent_s").alias("s")).agg(F.count("*").alias("sent"))
    done = sends.groupBy(F.col("done_s").alias("s")).agg(
        *(F.count_if(F.col("outcome") == what).alias(what.value) for what in Outcome),
        F.percentile_approx("latency", list(_QUANTILES.values()), _ACCURACY).alias("quantiles"),
        F.max("latency").alias("longest"),
    )
    seconds = sends.agg(F.min("sent_s").alias("low"), F.max("done_s").alias("high"))
    every = seconds.where("low is not null").select(F.explode(F.sequence("low", "high")).alias("s"))
    counts = ("sent", *(what.value for what in Outcome))
    return (
        _availability(sends, every)
        .join(sent, "s", "left")
        .join(done, "s", "left")
        .join(lag(ledger, reads, every), "s", "left")
        .orderBy("s")
        .select(
            F.timestamp_seconds("s").alias("at"),
            *(F.coalesce(name, F.lit(0)).cast("bigint").alias(name) for name in counts),
            *(
                (F.col("quantiles")[place] / 1e3).alias(f"latency_{name}_ms")
                for place, name in enumerate(_QUANTILES)
            ),
            (F.col("longest") / 1e3).alias("latency_max_ms"),
            "availability",
            "lag",
        )
    )


def _availability(sends: DataFrame, every: DataFrame) -> DataFrame:
    """Return every second `s` of `every` with its availability.

    Of the partitions that had a send under way at some time in the second, the share that
    acknowledged one in it. A partition's sends under way in a second are those begun until its
    end, less those done before its begin.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    zero = F.lit(0)
    acked = (F.col("outcome") == Outcome.ACKED).cast("int")
    grid = sends.select(*_PLACE).distinct().crossJoin(every)
    changes = (
        sends.select(*_PLACE, F.col("sent_s").alias("s"), F.lit(1).alias("b"), zero, zero)
        .union(sends.select(*_PLACE, "done_s", zero, F.lit(1), acked))
        .union(grid.select(*_PLACE, "s", zero, zero, zero))
        .toDF(*_PLACE, "s", "begun", "done", "acked")
        .groupBy(*_PLACE, "s")
        .agg(*(F.sum(name).alias(name) for name in ("begun", "done", "acked")))
    )
    by_time = Window.partitionBy(*_PLACE).orderBy("s")
    until_now = by_time.rowsBetween(Window.unboundedPreceding, 0)
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    under_way = F.sum("begun").over(until_now) - F.coalesce(F.sum("done").over(before), zero)
    return (
        changes.withColumn("under_way", under_way)
        .groupBy("s")
        .agg(
            F.avg(F.when(F.col("under_way") > 0, (F.col("acked") > 0).cast("double"))).alias(
                "availability"
            )
        )
    )
