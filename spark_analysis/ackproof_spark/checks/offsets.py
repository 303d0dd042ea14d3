"""Records at wrong offsets: in the log twice, in another order than sent, or not where acked.

`docs/reference/anomalies.md` defines them. The usual cause of a duplicate is a retry after a first
try that was written.

    producer 1 sequence 7   acked at orders-0 offset 9
    orders-0 offset 7       sequence 7
    orders-0 offset 8       sequence 8
    orders-0 offset 9       sequence 7                      <- duplicated: copy 2 of 2
    orders-1 offset 3       sequence 7                      no duplicate: a phantom there

Of reordered records only the first copy counts, so that a late duplicate is not also reordered, and
only acked and unknown sends: a phantom has no place in the order.

    orders-0 offset 5       producer 1 sequence 5
    orders-0 offset 6       producer 1 sequence 7
    orders-0 offset 7       producer 1 sequence 6           <- reordered: behind sequence 7
    orders-0 offset 8       producer 2 sequence 1           another producer: no order between
    orders-0 offset 9       producer 1 sequence 5           a duplicate, not reordered

Inconsistent is Jepsen's `inconsistent-offsets`. If another send was acked at the same offset, the
send may also be lost: its record was removed, and its offset assigned again.

    producer 1 sequence 7   acked at orders-0 offset 7      <- inconsistent: it stands at offset 6
    producer 1 sequence 8   acked at orders-0 offset 8      <- inconsistent: 2/0 was, too
    producer 2 sequence 0   acked at orders-0 offset 8      it stands there
    producer 2 sequence 1   acked at orders-0 offset 9      nothing there: lost, not inconsistent
    orders-0 holds, at 6 to 8: 1/7, 2/5, 2/0; complete up to 10

Not inconsistent: a send whose record is at its offset, even with further copies or damaged; and a
send whose offset was removed by retention or not read, unless another send was acked there.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.absent import read_ranges
from ackproof_spark.checks.anomaly_rows import as_anomalies, text, with_names
from ackproof_spark.checks.check import Check
from ackproof_spark.checks.unexpected import identified
from ackproof_spark.reading.run_tables import NAME, PLACE, RunTables, cached_for_run
from ackproof_spark.spark.functions import DataFrame, F, Window
from ackproof_spark.tables import Outcome, RecordState

_REPEATED = "copies > 1"
_BEHIND = "ahead is not null"
_ASTRAY = "displaced or (absent and acked_offset is not null)"

#: How many offsets `found` names at most.
_NAMED = 8


def duplicated(tables: RunTables) -> DataFrame:
    """Return one row for each surplus copy; `found` has the offsets of all copies."""
    repeated = tables.suspects.where(_REPEATED).select(*NAME, "copies", "sent_at", "resolved_at")
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
    late = tables.suspects.where(_BEHIND)
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


def inconsistent(tables: RunTables) -> DataFrame:
    """Return one row for each such send, at its acked offset; `found` has the contradiction."""
    sends = _candidates(tables).join(_rivals(tables), [*PLACE, "producer", "sequence"], "left")
    sends = sends.join(read_ranges(tables), ["topic", "partition"], "left")
    offset = F.col("offset")
    reached = F.coalesce(F.col("complete") | (offset < F.col("read_to")), F.lit(False))
    decidable = reached & (offset >= F.coalesce("begin_offset", F.lit(0)))
    elsewhere = F.when(decidable, text("it stands at offset {}", F.col("first_offset")))
    shared = text("{} was acked at offset {}, too", F.col("rival"), offset)
    return as_anomalies(
        sends.where(elsewhere.isNotNull() | F.col("rival").isNotNull()),
        Anomaly.INCONSISTENT,
        tables=tables,
        found=F.concat_ws("; ", elsewhere, shared),
    )


@cached_for_run
def _candidates(tables: RunTables) -> DataFrame:
    """Return sends without a record, intact or damaged, at their acked `offset`."""
    astray = tables.suspects.where(_ASTRAY).withColumn("offset", F.col("acked_offset"))
    there = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*NAME, "offset")
    return astray.join(there, [*NAME, "offset"], "left_anti").join(
        identified(tables).select(*NAME), NAME, "left_anti"
    )


def _rivals(tables: RunTables) -> DataFrame:
    """Return for each candidate what another send acked at its offset is called: `rival`."""
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
    rivals = (
        mine.join(least, PLACE)
        .join(second, PLACE, "left")
        .select(*PLACE, F.struct("producer", "sequence").alias("send"), rival.alias("rival"))
        .where(F.col("rival").isNotNull())
    )
    called = with_names(tables, rivals.select(*PLACE, "send", "rival.*"))
    return called.select(*PLACE, "send.*", F.col("called").alias("rival"))


CHECKS = (
    Check(anomaly=Anomaly.DUPLICATED, find=duplicated, suspects=_REPEATED),
    Check(anomaly=Anomaly.REORDERED, find=reordered, suspects=_BEHIND),
    Check(anomaly=Anomaly.INCONSISTENT, find=inconsistent, suspects=_ASTRAY),
)
