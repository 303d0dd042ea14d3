"""Rows of a run as those of a warehouse: names, `events`, `metrics` and `share_groups`."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof_spark.metrics import ack_latency, quantiles
from ackproof_spark.spark.functions import Column, DataFrame, F, Window, union
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome

#: Columns of a run's tables that SQL reserves as words, and their names in a warehouse.
_NAMES = {
    "at": "occurred_at",
    "case": "case_id",
    "found": "evidence",
    "offset": "record_offset",
    "partition": "partition_id",
    "size": "size_bytes",
    "trigger": "start_condition",
}


def renamed(rows: DataFrame) -> DataFrame:
    """Return a run's table with a warehouse's columns; faults are numbered from 1, as on pages."""
    rows = rows.withColumnsRenamed(_NAMES)
    if "window" in rows.columns:
        rows = rows.withColumn("fault_number", F.col("window") + 1)
    if "parameters" in rows.columns:
        parsed = F.from_json("parameters", "map<string,string>")
        rows = rows.withColumn("parameters", parsed)
    return rows


_EDGES = ("injected", "verified", "healed", "recovered")


def events(
    *, fault_windows: DataFrame, partition_states: DataFrame, broker_states: DataFrame
) -> DataFrame:
    """Return `run_id` and the columns of `schemas.EVENTS`, without troubles.

    A fault has one event for each of its brokers.
    """
    edges = F.explode(
        F.array(
            *(
                F.struct(
                    F.col(f"{edge}_at").alias("occurred_at"), F.lit(f"fault-{edge}").alias("kind")
                )
                for edge in _EDGES
            )
        )
    )
    of_faults = (
        fault_windows.select("*", edges.alias("edge"))
        .select(
            "run_id",
            "edge.occurred_at",
            "edge.kind",
            F.explode_outer("nodes").alias("node"),
            F.format_string("F%d %s of %s", F.col("window") + 1, "fault", "target").alias(
                "description"
            ),
        )
        .where("occurred_at is not null")
    )
    of_partitions = partition_states.select(
        "run_id",
        F.col("at").alias("occurred_at"),
        F.lit("partition-state").alias("kind"),
        F.nullif("leader", F.lit(-1)).alias("node"),
        "topic",
        F.col("partition").alias("partition_id"),
        F.format_string(
            "leader %d, leader epoch %d, ISR %s", "leader", "leader_epoch", _ids("isr")
        ).alias("description"),
    )
    of_brokers = broker_states.select(
        "run_id",
        F.col("at").alias("occurred_at"),
        F.lit("broker-state").alias("kind"),
        F.col("broker").alias("node"),
        F.format_string("broker %d %s", "broker", "state").alias("description"),
    )
    return union([of_faults, of_partitions, of_brokers], sparse=True)


def _ids(column: str) -> Column:
    return F.concat(F.lit("{"), F.array_join(column, ", "), F.lit("}"))


#: The columns that identify a partition of a run.
PARTITION = ["run_id", "topic", "partition"]


def second(time: Column) -> Column:
    """Return a time in whole seconds since 1970."""
    return F.floor(F.unix_micros(time) / 1_000_000).cast("bigint")


def lag(ledger: DataFrame, reads: DataFrame, seconds: DataFrame) -> DataFrame:
    """Return `run_id`, `s` and the highest `lag` of a group at the end of each second.

    `seconds` has the run's seconds: `run_id`, `s`. A group's lag is the sum over partitions of the
    highest acked offset minus the highest offset that the group read, or minus the offset before
    the first acked one if that is higher. There is no row before the first ack with an offset, and
    for runs without consumers.
    """
    sends = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull())
    acked = sends.groupBy(*PARTITION, second(F.coalesce("resolved_at", "sent_at")).alias("s")).agg(
        F.max("offset").alias("acked"), F.min("offset").alias("lowest")
    )
    read = reads.groupBy("group", *PARTITION, second(F.col("read_at")).alias("s")).agg(
        F.max("offset").alias("read")
    )
    by_partition = Window.partitionBy("group", *PARTITION)
    until_now = by_partition.orderBy("s").rowsBetween(Window.unboundedPreceding, 0)
    first = F.min("lowest").over(by_partition) - 1
    behind = F.max("acked").over(until_now) - F.greatest(F.max("read").over(until_now), first)
    return (
        reads.select("run_id", "group")
        .distinct()
        .join(acked.select(*PARTITION).distinct(), "run_id")
        .join(seconds, "run_id")
        .join(acked, [*PARTITION, "s"], "left")
        .join(read, ["group", *PARTITION, "s"], "left")
        # `greatest` alone would turn null, before the first ack, into 0.
        .withColumn("behind", F.when(behind.isNotNull(), F.greatest(behind, F.lit(0))))
        .groupBy("run_id", "s", "group")
        .agg(F.sum("behind").alias("behind"))
        .where("behind is not null")
        .groupBy("run_id", "s")
        .agg(F.max("behind").alias("lag"))
    )


#: `unknown` is a reserved word.
_COUNTS = {"unknown": "unknown_outcome"}

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def per_second(
    ledger: DataFrame, reads: DataFrame, *, timed: Sequence[str] | None = None
) -> DataFrame:
    """Return `run_id` and the columns of `schemas.METRICS`, for each second of a run.

    Latencies are those of the sends that were sent in the second, as on a run's page. `timed`: the
    runs whose latency counts, by default all. A run without sends has no row. A send without an
    outcome, because its producer died, counts when it was sent.
    """
    workload = ledger.where(f"producer < {PROBE_PRODUCERS}")
    counts_latency = F.lit(True) if timed is None else F.col("run_id").isin(*timed)
    sends = workload.where("sent_at is not null or resolved_at is not null").select(
        *PARTITION,
        "outcome",
        second(F.coalesce("sent_at", "resolved_at")).alias("sent_s"),
        second(F.coalesce("resolved_at", "sent_at")).alias("done_s"),
        F.when(counts_latency, ack_latency()).alias("latency"),
    )
    sent = sends.groupBy("run_id", F.col("sent_s").alias("s")).agg(
        F.count("*").alias("sent"),
        quantiles("latency", _QUANTILES.values()).alias("quantiles"),
        F.max("latency").alias("longest"),
    )
    done = sends.groupBy("run_id", F.col("done_s").alias("s")).agg(
        *(F.count_if(F.col("outcome") == outcome).alias(outcome.value) for outcome in Outcome)
    )
    seconds = (
        sends.groupBy("run_id")
        .agg(F.min("sent_s").alias("first"), F.max("done_s").alias("last"))
        .select("run_id", F.explode(F.sequence("first", "last")).alias("s"))
    )
    counts = ("sent", *(outcome.value for outcome in Outcome))
    key = ["run_id", "s"]
    return (
        _acking_share(sends, seconds)
        .join(sent, key, "left")
        .join(done, key, "left")
        .join(lag(ledger, reads, seconds), key, "left")
        .orderBy(*key)
        .select(
            "run_id",
            F.timestamp_seconds("s").alias("occurred_at"),
            *(
                F.coalesce(name, F.lit(0)).cast("bigint").alias(_COUNTS.get(name, name))
                for name in counts
            ),
            *(
                (F.col("quantiles")[index] / 1e3).alias(f"latency_{name}_ms")
                for index, name in enumerate(_QUANTILES)
            ),
            (F.col("longest") / 1e3).alias("latency_max_ms"),
            "acking_share",
            "lag",
        )
    )


def share_groups(
    groups: DataFrame, acquisitions: DataFrame, acknowledgements: DataFrame
) -> DataFrame:
    """Return `run_id` and the columns of `schemas.SHARE_GROUPS`, of records of the run.

    A group whose end was not recorded has no more than what its consumers recorded.
    """
    key = ["group", *PARTITION]
    by_record = acquisitions.where("producer is not null").groupBy(*key, "offset")
    got = (
        by_record.agg(F.count("*").alias("times"))
        .groupBy(*key)
        .agg(
            F.count("*").alias("records"),
            F.sum("times").alias("deliveries"),
            F.max("times").alias("deliveries_most"),
        )
    )
    answered = acknowledgements.where("producer is not null and answered_at is not null")
    took = F.col("error").isNull()

    def taken(kind: str) -> Column:
        return took & (F.col("kind") == kind)

    said = answered.groupBy(*key).agg(
        *(
            F.count_distinct(F.when(taken(kind), F.col("offset"))).alias(name)
            for kind, name in (("accept", "accepted"), ("reject", "rejected"))
        ),
        F.count_if(taken("release")).alias("released"),
        F.count_if(~took).alias("refused"),
    )
    counts = ("records", "deliveries", "deliveries_most", *said.columns[len(key) :])
    return (
        groups.select(
            *key,
            F.col("lag").alias("records_left"),
            "delivery_limit",
            F.col("dead_letters").alias("dead_letter_topic"),
        )
        .join(got, key, "full")
        .join(said, key, "full")
        .select(
            "run_id",
            F.col("group").alias("consumer_group"),
            "topic",
            F.col("partition").alias("partition_id"),
            *("records_left", "delivery_limit", "dead_letter_topic"),
            *(F.coalesce(name, F.lit(0)).cast("bigint").alias(name) for name in counts),
        )
    )


def _acking_share(sends: DataFrame, seconds: DataFrame) -> DataFrame:
    """Return every second of `seconds` with the share of partitions that acked a send.

    It is the share of those with a send in flight: those sent before its end, minus those resolved
    before its start. The first second has none: the clients began in the middle of it. The
    availability of a run is another measure, see `metrics.unavailability`.
    """
    zero = F.lit(0)
    acked = (F.col("outcome") == Outcome.ACKED).cast("int")
    grid = sends.select(*PARTITION).distinct().join(seconds, "run_id")
    changes = (
        sends.select(*PARTITION, F.col("sent_s").alias("s"), F.lit(1).alias("sent"), zero, zero)
        .union(sends.select(*PARTITION, "done_s", zero, F.lit(1), acked))
        .union(grid.select(*PARTITION, "s", zero, zero, zero))
        .toDF(*PARTITION, "s", "sent", "done", "acked")
        .groupBy(*PARTITION, "s")
        .agg(*(F.sum(name).alias(name) for name in ("sent", "done", "acked")))
    )
    by_time = Window.partitionBy(*PARTITION).orderBy("s")
    until_now = by_time.rowsBetween(Window.unboundedPreceding, 0)
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    in_flight = F.sum("sent").over(until_now) - F.coalesce(F.sum("done").over(before), zero)
    acks = F.when(F.col("in_flight") > 0, (F.col("acked") > 0).cast("double"))
    return (
        changes.withColumn("in_flight", in_flight)
        .groupBy("run_id", "s")
        .agg(F.avg(acks).alias("share"))
        .withColumn("first", F.min("s").over(Window.partitionBy("run_id")))
        .select(
            "run_id", "s", F.when(F.col("s") > F.col("first"), F.col("share")).alias("acking_share")
        )
    )
