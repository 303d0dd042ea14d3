"""What the checks of share groups start from: deliveries, and the partitions at rest.

A delivery is a record of a poll. A group is at rest in a partition if it has no record left to
deliver there; Kafka then neither delivers nor acknowledges anything any more (`SHARE_GROUPS`).
"""

from __future__ import annotations

from ackproof_spark.checks.resets import replay, resets
from ackproof_spark.reading.run_tables import NAME, PARTITION, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F, Window

#: The columns that identify a record of the log, and one of a share group.
RECORD = [*NAME, "offset"]
OF_GROUP = ["group", *RECORD]

#: The columns that identify one since a reset of its group's offsets.
AGAIN = [*OF_GROUP, "replay"]

#: The columns that identify a delivery.
DELIVERY = ["consumer", "poll", "number"]


def deliveries(run: StoredRun) -> DataFrame:
    """Return the deliveries of this run's records; `nth` counts those of a record in its group.

    A reset of the group's offsets begins them anew: `replay` counts the resets before. `same`
    counts the deliveries of a record with the same `delivery_count`.
    """
    in_order = Window.partitionBy(*AGAIN).orderBy("read_at", "delivery_count", *DELIVERY)
    of_count = Window.partitionBy(*AGAIN, "delivery_count").orderBy("read_at", *DELIVERY)
    of_run = run["acquisitions"].where(F.col("producer").isNotNull())
    counted = of_run.withColumn("replay", replay(resets(run), "read_at"))
    return counted.withColumn("nth", F.row_number().over(in_order)).withColumn(
        "same", F.row_number().over(of_count)
    )


def with_accepts(every: DataFrame, run: StoredRun) -> DataFrame:
    """Add the first `accept` of each record that the brokers took, null if there is none."""
    counts = every.select(*DELIVERY, "delivery_count")
    of_accept = F.struct("answered_at", "consumer", "delivery_count")
    accepts = acknowledged(run, "accept").join(counts, DELIVERY)
    return every.join(accepts.groupBy(*AGAIN).agg(F.min(of_accept).alias("accept")), AGAIN, "left")


def after_accept() -> Column:
    """Return whether a delivery of `with_accepts` is later than the accept.

    A record may wait in its consumer until the lock has expired, and be accepted by another one
    meanwhile. Then the brokers have counted its delivery before: it is the first with that count.
    """
    waited = (F.col("delivery_count") < F.col("accept.delivery_count")) & (F.col("same") == 1)
    later = F.col("read_at") > F.col("accept.answered_at")
    return F.coalesce(later & ~F.coalesce(waited, F.lit(False)), F.lit(False))


def acknowledged(run: StoredRun, kind: str) -> DataFrame:
    """Return the acknowledgements of a kind that the brokers took."""
    taken = F.col("answered_at").isNotNull() & F.col("error").isNull()
    of_kind = run["acknowledgements"].where((F.col("kind") == kind) & taken)
    return of_kind.withColumn("replay", replay(resets(run), "answered_at"))


def at_rest(run: StoredRun) -> DataFrame:
    """Return group, topic, partition, `earliest` and `dead_letters` of the partitions at rest."""
    rows = run["share_groups"].where("lag = 0")
    return rows.select("group", *PARTITION, "earliest", "dead_letters")
