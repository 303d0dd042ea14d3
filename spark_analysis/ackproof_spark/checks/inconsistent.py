"""Inconsistent: ledger and log disagree about an offset. Jepsen's `inconsistent-offsets`.

    producer 1 sequence 7   acked at orders-0 offset 7      <- inconsistent: it stands at offset 6
    producer 1 sequence 8   acked at orders-0 offset 8      <- inconsistent: 2/0 was, too
    producer 2 sequence 0   acked at orders-0 offset 8      it stands there
    producer 2 sequence 1   acked at orders-0 offset 9      nothing there: lost, not inconsistent
    orders-0 holds, at 6 to 8: 1/7, 2/5, 2/0; complete up to 10

One row a send that was acked at an offset where no intact record of its own stands, if the send
stands elsewhere in its partition, or if another send was acked at the same offset. Of several
sends acked at one offset, the one that stands there is right. A send of the second kind may be
lost as well: its offset was given to another after its record was removed.

Not inconsistent: a send whose record stands at its offset, once or again elsewhere (`duplicated`);
one whose record is there but damaged (`corrupt`); and, if no other send was acked there, one whose
offset retention removed or reading did not reach.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks import corrupt
from ackproof_spark.checks.absent import how_far
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.reading.run_tables import NAME, PLACE, RunTables, cached_for_run
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome, RecordState


def find(tables: RunTables) -> DataFrame:
    """Return one row a send, at its acked offset; `found` says what contradicts it."""
    sends = _candidates(tables).join(_rivals(tables), [*PLACE, "producer", "sequence"], "left")
    sends = sends.join(how_far(tables), ["topic", "partition"], "left")
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
        offset=offset,
        found=F.concat_ws("; ", elsewhere, shared),
    )


@cached_for_run
def _candidates(tables: RunTables) -> DataFrame:
    """Return sends acked at an `offset` where no record of theirs stands, damaged or not."""
    astray = tables.suspects.where(
        F.col("displaced") | (F.col("absent") & F.col("acked_offset").isNotNull())
    ).withColumn("offset", F.col("acked_offset"))
    there = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*NAME, "offset")
    return astray.join(there, [*NAME, "offset"], "left_anti").join(
        corrupt.identified(tables).select(*NAME), NAME, "left_anti"
    )


def _rivals(tables: RunTables) -> DataFrame:
    """Return, by candidate, the lowest name of another send acked at its offset, as `rival`."""
    name = F.struct("producer", "sequence")
    mine = _candidates(tables).select(*PLACE, "producer", "sequence")
    there = (
        tables.ledger.where(F.col("outcome") == Outcome.ACKED)
        .join(mine.select(*PLACE).distinct(), PLACE, "left_semi")
        .select(*PLACE, name.alias("name"))
    )
    # Two names of each offset are enough: any number of sends may have been acked there.
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
