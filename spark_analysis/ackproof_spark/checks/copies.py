"""Records that are in the log twice, or in another order than they were sent.

Duplicated: a partition has more than one record of a send. One row for each surplus copy, whatever
the outcome of the send. The usual cause is a retry after a first try that was written.

    producer 1 sequence 7   acked at orders-0 offset 9
    orders-0 offset 7       sequence 7
    orders-0 offset 8       sequence 8
    orders-0 offset 9       sequence 7                      <- duplicated: copy 2 of 2
    orders-1 offset 3       sequence 7                      no duplicate: a phantom there

Reordered: a record is behind one that its producer sent later to the same partition. Only the first
copy counts, so that a late duplicate is not also reordered, and only acked and unknown sends:
a phantom has no place in the order.

    orders-0 offset 5       producer 1 sequence 5
    orders-0 offset 6       producer 1 sequence 7
    orders-0 offset 7       producer 1 sequence 6           <- reordered: behind sequence 7
    orders-0 offset 8       producer 2 sequence 1           another producer: no order between
    orders-0 offset 9       producer 1 sequence 5           a duplicate, not reordered
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, RunTables
from ackproof_spark.spark.functions import DataFrame, F, Window
from ackproof_spark.tables import RecordState

#: How many offsets `found` names at most.
_NAMED = 8


def duplicated(tables: RunTables) -> DataFrame:
    """Return one row for each surplus copy; `found` has the offsets of all copies."""
    repeated = tables.suspects.where(F.col("copies") > 1).select(
        *NAME, "copies", "sent_at", "resolved_at"
    )
    records = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*NAME, "offset")
    by_name = Window.partitionBy(*NAME)
    copies = (
        records.join(repeated, NAME)
        .withColumn("copy", F.row_number().over(by_name.orderBy("offset")))
        .withColumn("offsets", F.sort_array(F.collect_list("offset").over(by_name)))
    )
    named = F.concat_ws(", ", F.slice("offsets", 1, _NAMED).cast("array<string>"))
    more = F.when(F.col("copies") > _NAMED, F.lit(", …")).otherwise(F.lit(""))
    return as_anomalies(
        copies.where(F.col("copy") > 1),
        Anomaly.DUPLICATED,
        tables=tables,
        found=text("copy {} of {}, at offsets {}{}", F.col("copy"), F.col("copies"), named, more),
    )


def reordered(tables: RunTables) -> DataFrame:
    """Return one row for each late record; `found` has the record that it should precede."""
    late = tables.suspects.where(F.col("ahead").isNotNull())
    name = ["topic", "partition", "producer", "ahead"]
    ahead = (
        tables.final_log.where(F.col("state") == RecordState.INTACT)
        .withColumnRenamed("sequence", "ahead")
        .join(late.select(*name), name, "left_semi")
        .groupBy(*name)
        .agg(F.min("offset").alias("ahead_offset"))
    )
    return as_anomalies(
        late.join(ahead, name),
        Anomaly.REORDERED,
        tables=tables,
        offset="first_offset",
        found=text(
            "behind sequence {}, which stands at offset {}", F.col("ahead"), F.col("ahead_offset")
        ),
    )
