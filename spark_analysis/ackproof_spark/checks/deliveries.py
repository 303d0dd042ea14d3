"""What the checks of share groups start from: deliveries, and the partitions at rest.

A delivery is a record of a poll. A group is at rest in a partition if it has no record left to
deliver there; Kafka then neither delivers nor acknowledges anything any more (`SHARE_GROUPS`).
"""

from __future__ import annotations

from ackproof_spark.checks.resets import replay, resets
from ackproof_spark.reading.run_tables import NAME, PARTITION, StoredRun
from ackproof_spark.spark.functions import DataFrame, F, Window

#: The columns that identify a record of the log, and one of a share group.
RECORD = [*NAME, "offset"]
OF_GROUP = ["group", *RECORD]

#: The columns that identify one since a reset of its group's offsets.
AGAIN = [*OF_GROUP, "replay"]

#: The columns that identify a delivery.
DELIVERY = ["consumer", "poll", "number"]


def deliveries(run: StoredRun) -> DataFrame:
    """Return the deliveries of this run's records; `nth` counts those of a record in its group.

    A reset of the group's offsets begins them anew: `replay` counts the resets before.
    """
    in_order = Window.partitionBy(*AGAIN).orderBy("read_at", "delivery_count", *DELIVERY)
    of_run = run["acquisitions"].where(F.col("producer").isNotNull())
    counted = of_run.withColumn("replay", replay(resets(run), "read_at"))
    return counted.withColumn("nth", F.row_number().over(in_order))


def acknowledged(run: StoredRun, kind: str) -> DataFrame:
    """Return the acknowledgements of a kind that the brokers took."""
    taken = F.col("answered_at").isNotNull() & F.col("error").isNull()
    of_kind = run["acknowledgements"].where((F.col("kind") == kind) & taken)
    return of_kind.withColumn("replay", replay(resets(run), "answered_at"))


def at_rest(run: StoredRun) -> DataFrame:
    """Return group, topic, partition, `earliest` and `dead_letters` of the partitions at rest."""
    rows = run["share_groups"].where("lag = 0")
    return rows.select("group", *PARTITION, "earliest", "dead_letters")
