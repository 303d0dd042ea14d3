"""Records that stand twice, or in another order than they were sent.

Duplicated: one send stands more than once in its partition.

One row a surplus copy, whatever became of the send: a retry whose first try was written after
all is the usual cause, and may happen to sends that were acked, failed or of unknown outcome.

    producer 1 sequence 7   acked at orders-0 offset 9
    orders-0 offset 7       sequence 7
    orders-0 offset 8       sequence 8
    orders-0 offset 9       sequence 7                      <- duplicated: copy 2 of 2
    orders-1 offset 3       sequence 7                      no duplicate: a phantom there

Reordered: a record stands behind one that its producer sent later to the same partition.

Only first occurrences count, so that a late duplicate is not also out of order, and only records
of acked and unknown sends: a phantom has no place in any order.

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
    """Return one row a surplus copy, at its offset; `found` names the offsets of all copies."""
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
        offset=F.col("offset"),
        found=text("copy {} of {}, at offsets {}{}", F.col("copy"), F.col("copies"), named, more),
    )


def reordered(tables: RunTables) -> DataFrame:
    """Return one row a record that comes too late; `found` names the one it should precede."""
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
        offset=F.col("first_offset"),
        found=text(
            "behind sequence {}, which stands at offset {}", F.col("ahead"), F.col("ahead_offset")
        ),
    )
