"""Inconsistent: ledger and log disagree about an offset. Jepsen's `inconsistent-offsets`.

    producer 1 sequence 7   acked at orders-0 offset 7      <- inconsistent: it stands at offset 6
    producer 1 sequence 8   acked at orders-0 offset 8      <- inconsistent: 2/0 was, too
    producer 2 sequence 0   acked at orders-0 offset 8      it stands there
    producer 2 sequence 1   acked at orders-0 offset 9      nothing there: lost, not inconsistent
    orders-0 holds, at 6 to 8: 1/7, 2/5, 2/0; complete up to 10

One row for each send without an intact record at its acked offset, if its record is at another
offset of the partition, or if another send was acked at the same offset. In the second case the
send may also be lost: its record was removed, and its offset assigned again.

Not inconsistent: a send whose record is at its offset, even with further copies (`duplicated`) or
damaged (`corrupt`); and a send whose offset was removed by retention or not read, unless another
send was acked there.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks import corrupt
from ackproof_spark.checks.absent import read_ranges
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, PLACE, RunTables, cached_for_run
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome, RecordState


def find(tables: RunTables) -> DataFrame:
    """Return one row for each such send, at its acked offset; `found` has the contradiction."""
    sends = _candidates(tables).join(_rivals(tables), [*PLACE, "producer", "sequence"], "left")
    sends = sends.join(read_ranges(tables), ["topic", "partition"], "left")
    offset = F.col("offset")
    reached = F.coalesce(F.col("complete") | (offset < F.col("read_to")), F.lit(False))
    decidable = reached & (offset >= F.coalesce("begin_offset", F.lit(0)))
    elsewhere = F.when(decidable, text("it stands at offset {}", F.col("first_offset")))
    shared = text(
        "producer {} sequence {} was acked at offset {}, too",
        F.col("rival.producer"),
        F.col("rival.sequence"),
        offset,
    )
    return as_anomalies(
        sends.where(elsewhere.isNotNull() | F.col("rival").isNotNull()),
        Anomaly.INCONSISTENT,
        tables=tables,
        found=F.concat_ws("; ", elsewhere, shared),
    )


@cached_for_run
def _candidates(tables: RunTables) -> DataFrame:
    """Return sends without a record, intact or damaged, at their acked `offset`."""
    astray = tables.suspects.where(
        F.col("displaced") | (F.col("absent") & F.col("acked_offset").isNotNull())
    ).withColumn("offset", F.col("acked_offset"))
    there = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*NAME, "offset")
    return astray.join(there, [*NAME, "offset"], "left_anti").join(
        corrupt.identified(tables).select(*NAME), NAME, "left_anti"
    )


def _rivals(tables: RunTables) -> DataFrame:
    """Return for each candidate another send acked at its offset, `rival`: the lowest name."""
    name = F.struct("producer", "sequence")
    mine = _candidates(tables).select(*PLACE, "producer", "sequence")
    there = (
        tables.ledger.where(F.col("outcome") == Outcome.ACKED)
        .join(mine.select(*PLACE).distinct(), PLACE, "left_semi")
        .select(*PLACE, name.alias("name"))
    )
    # Two names for each offset are enough, however many sends were acked there.
    least = there.groupBy(*PLACE).agg(F.min("name").alias("least"))
    second = (
        there.join(least, PLACE)
        .where(F.col("name") != F.col("least"))
        .groupBy(*PLACE)
        .agg(F.min("name").alias("second"))
    )
    rival = F.when(F.col("least") != name, F.col("least")).otherwise(F.col("second"))
    return (
        mine.join(least, PLACE)
        .join(second, PLACE, "left")
        .select(*PLACE, "producer", "sequence", rival.alias("rival"))
        .where(F.col("rival").isNotNull())
    )
