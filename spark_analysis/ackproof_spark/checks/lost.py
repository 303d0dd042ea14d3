"""Lost: acked, and not in the log any more.

A send is lost if its delivery report said success, no intact record of its name stands in its
partition, and the partition was read far enough to tell. Names count, not offsets: markers and
control records leave gaps that are no loss, and what was truncated is often overwritten.

    producer 1 sequence 6   acked at orders-0 offset 6
    producer 1 sequence 7   acked at orders-0 offset 7      <- lost: offset 7 holds sequence 9
    producer 1 sequence 8   failed                          not lost: never acked
    producer 1 sequence 9   acked at orders-0 offset 7
    orders-0 holds, at 6 and 7: sequence 6, sequence 9; complete up to 8

Not lost: failed and unknown sends; what retention or compaction may have removed (`absent`);
what still stands there but corrupt (`corrupt`); what cannot be decided yet (`unseen`). A record
that stands on another partition than its send's is lost on its own and a `phantom` there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.absent import absent
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.standing import standing, what_stands
from ackproof_spark.reading.run_tables import PLACE, RunTables
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(tables: RunTables) -> DataFrame:
    """Return one row a lost send; `found` says what stands at its acked offset now."""
    lost = absent(tables).where("decidable").withColumn("offset", F.col("acked_offset"))
    # Spark knows that the suspects are few; it does not know that of the result of a join.
    suspects = tables.suspects.where("absent").select(
        "topic", "partition", F.col("acked_offset").alias("offset")
    )
    elsewhere = (
        tables.suspects.where("phantom")
        .groupBy("topic", "producer", "sequence")
        .agg(F.min(F.struct("partition", "first_offset")).alias("elsewhere"))
    )
    lost = lost.join(standing(tables, suspects), PLACE, "left").join(
        elsewhere, ["topic", "producer", "sequence"], "left"
    )

    offset = F.col("offset")
    found = F.when(offset.isNull(), F.lit("no offset was acked")).otherwise(what_stands(offset))
    also = text(
        "; it stands in {}-{} at offset {}",
        F.col("topic"),
        F.col("elsewhere.partition"),
        F.col("elsewhere.first_offset"),
    )
    return as_anomalies(
        lost,
        Anomaly.LOST,
        tables=tables,
        offset=offset,
        found=F.concat(found, F.coalesce(also, F.lit(""))),
    )
