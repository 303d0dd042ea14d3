"""Read then gone: a consumer or the probe was given a record that the final log lacks.

Whatever became of its send counts: who has seen a record must be able to see it again.

    consumer 0              was given 1/6, 1/7, 1/8 at orders-0 offsets 6, 7, 8
    producer 1 sequence 7   unknown
    orders-0 holds, at 6 and 7: 1/6, 1/9; complete up to 9
    producer 1 sequence 8   aborted: orders-0 is read with read_committed
                                                            <- read-then-gone: 1/7, 1/8

One row a record, at the offset at which it was first read. Gone means that no intact record of its
name stands at any offset of its partition. Not gone: what stands there but corrupt (`corrupt`);
what retention removed (read before the log's begin); what was read before its topic was created
anew; what the final log was not read far enough to tell. The probe reads with read_uncommitted:
what it was given of a transaction counts only if the send was acked.
"""

from __future__ import annotations

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks import corrupt
from ackproof_spark.checks.absent import how_far
from ackproof_spark.checks.anomaly_rows import as_anomalies, standing, text, what_stands
from ackproof_spark.reading.run_tables import NAME, PLACE, RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F
from ackproof_spark.tables import Outcome, RecordState

_PARTITION = ["topic", "partition"]
_PROBE = "the probe"


def find(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each such record; `found` names its outcome and its first reader."""
    gone = tables.keep(_promised(tables, run, tables.keep(_gone(tables, run))))
    reader = F.struct("read_at", "reader", "offset")
    first = gone.groupBy(*NAME, "outcome", "sent_at").agg(
        F.min(reader).alias("first"), F.count("*").alias("times")
    )
    records = (
        first.withColumn("offset", F.col("first.offset"))
        .join(standing(tables, gone.select(*PLACE)), PLACE, "left")
        .join(how_far(tables), _PARTITION)
    )
    found = text(
        "{}; read by {}{}; {}",
        F.coalesce("outcome", F.lit("never sent here")),
        F.col("first.reader"),
        F.when(F.col("times") > 1, text(", and {} times more", F.col("times") - 1)).otherwise(""),
        what_stands(F.col("offset")),
    )
    return as_anomalies(
        records.withColumn("resolved_at", F.col("first.read_at")),
        Anomaly.READ_THEN_GONE,
        tables=tables,
        offset=F.col("offset"),
        found=found,
    )


def _promised(tables: RunTables, run: StoredRun, gone: DataFrame) -> DataFrame:
    """Return those reads that promised the record to stay, with outcome and time of its send.

    Kafka promises no record of an open transaction that read_uncommitted returns.
    """
    transactional = run["transactions"].select("producer").distinct()
    open_ended = (F.col("reader") == _PROBE) & (F.col("outcome") != Outcome.ACKED)
    return (
        gone.join(tables.ledger.select(*NAME, "outcome", "sent_at"), NAME, "left")
        .join(transactional.withColumn("transactional", F.lit(True)), "producer", "left")
        .where(~F.coalesce(open_ended & F.col("transactional"), F.lit(False)))
    )


def _gone(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return the reads whose record the final log certainly lacks without an excuse."""
    intact = tables.final_log.where(F.col("state") == RecordState.INTACT).select(*NAME)
    stands_for = corrupt.identified(tables)
    damaged = tables.damaged.where(F.col("state") == RecordState.CORRUPT).select(*PLACE)
    unidentified = damaged.join(stands_for.select(*PLACE), PLACE, "left_anti")
    reached = F.col("complete") | (F.col("offset") < F.col("read_to"))
    return (
        _reads(run)
        .join(intact, NAME, "left_anti")
        .join(stands_for.select(*NAME), NAME, "left_anti")
        .join(unidentified, PLACE, "left_anti")
        .join(how_far(tables), _PARTITION)
        .where(reached & (F.col("offset") >= F.col("begin_offset")))
        .join(_created_anew(run), _PARTITION, "left")
        .where(F.col("anew_at").isNull() | (F.col("read_at") >= F.col("anew_at")))
        .select(*NAME, "offset", "read_at", "reader")
    )


def _reads(run: StoredRun) -> DataFrame:
    """Return what consumers and the probe were given: records of this run."""
    consumer = text(
        "consumer {} of {} with {}", F.col("consumer"), F.col("group"), F.col("isolation_level")
    )
    by_probe = (
        run["probe"]
        .where(F.col("action") == "read")
        .select(
            *NAME, "offset", F.col("answered_at").alias("read_at"), F.lit(_PROBE).alias("reader")
        )
    )
    return (
        run["reads"]
        .select(*NAME, "offset", "read_at", consumer.alias("reader"))
        .unionByName(by_probe)
        .where(F.col("producer").isNotNull())
    )


def _created_anew(run: StoredRun) -> DataFrame:
    """Return when each partition was last created, `anew_at`, if it was more than once.

    Kafka counts a partition's epochs from 0, in ZooKeeper as the version of its znode.
    """
    return (
        run["partition_states"]
        .where(F.col("partition_epoch") == 0)
        .groupBy(*_PARTITION)
        .agg(F.count("*").alias("creations"), F.max("at").alias("anew_at"))
        .where(F.col("creations") > 1)
        .drop("creations")
    )
