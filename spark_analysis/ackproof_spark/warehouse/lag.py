"""How far consumers are behind, second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.tables import Outcome
from ackproof_spark.warehouse.seconds import second

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ["topic", "partition"]


def lag(ledger: DataFrame, reads: DataFrame, seconds: DataFrame) -> DataFrame:
    """Return `s` and `lag` at the end of each second: of the consumer group that is most behind.

    A group's lag is the sum over partitions of how many offsets its highest read is behind the
    highest acknowledged one; before its first read, behind the first acknowledged one. Seconds
    before the first ack with an offset have no row; without consumers none has.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    sends = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull())
    acked = sends.groupBy(*_PLACE, second(F.coalesce("resolved_at", "sent_at")).alias("s")).agg(
        F.max("offset").alias("acked"), F.min("offset").alias("lowest")
    )
    read = reads.groupBy("group", *_PLACE, second(F.col("read_at")).alias("s")).agg(
        F.max("offset").alias("read")
    )
    places = acked.select(*_PLACE).distinct()
    by_place = Window.partitionBy("group", *_PLACE)
    until_now = by_place.orderBy("s").rowsBetween(Window.unboundedPreceding, 0)
    first = F.min("lowest").over(by_place) - 1
    behind = F.max("acked").over(until_now) - F.coalesce(F.max("read").over(until_now), first)
    return (
        reads.select("group")
        .distinct()
        .crossJoin(places)
        .crossJoin(seconds)
        .join(acked, [*_PLACE, "s"], "left")
        .join(read, ["group", *_PLACE, "s"], "left")
        .withColumn("behind", F.greatest(behind, F.lit(0)))
        .groupBy("s", "group")
        .agg(F.sum("behind").alias("behind"))
        .where("behind is not null")
        .groupBy("s")
        .agg(F.max("behind").alias("lag"))
    )
