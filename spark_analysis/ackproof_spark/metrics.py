"""Duration, throughput, ack latency and unavailability of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ackproof_spark.spark.functions import Column, DataFrame, F, Window, union
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome

#: Seconds without an acknowledgement that count as unavailability.
UNAVAILABILITY_GAP_S = 0.5

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

_ACCURACY = 100_000


def ack_latency() -> Column:
    """Return the time from send to ack in microseconds, null unless it was acked."""
    acked = F.col("outcome") == Outcome.ACKED
    return F.when(acked, F.unix_micros("resolved_at") - F.unix_micros("sent_at"))


def quantiles(column: Column | str, shares: Iterable[float]) -> Column:
    """Return quantiles by their nearest rank: values that occurred, as an array.

    The rank is off by at most 1/100,000 of all values. Quantiles of fewer values are exact, however
    Spark divides its rows.
    """
    return F.percentile_approx(column, list(shares), _ACCURACY)


def metric_questions(
    ledger: DataFrame, *, stopped: Sequence[int] = (), faults_ended_at: datetime | None = None
) -> dict[str, DataFrame]:
    """Return the queries whose results (`small_data.answers`) `as_metrics` turns into metrics.

    A producer that `stopped` for good counts as having a send in flight from then until
    `faults_ended_at`, or until the last outcome of the others if that is later. Its own outcomes
    count until then: its client may fail all sends at once, or hold them until they time out.
    """
    workload = ledger.where(f"producer < {PROBE_PRODUCERS}")
    acked = F.col("outcome") == Outcome.ACKED
    measured = []
    if stopped:
        held = F.col("producer").isin(*stopped) & ~acked
        known = F.when(held, F.col("sent_at")).otherwise(F.greatest("sent_at", "resolved_at"))
        last = F.greatest(F.max(known), F.lit(faults_ended_at).cast("timestamp"))
        end = workload.agg(last.alias("end"))
        until = F.when(held, F.least("resolved_at", "end")).otherwise(F.col("resolved_at"))
        workload = workload.crossJoin(end).withColumn("resolved_at", until).drop("end")
        measured = [_of_stopped(workload, stopped, end)]
    else:
        last = F.max(F.greatest("sent_at", "resolved_at"))
    measured.append(unavailability(workload))
    latency = ack_latency()
    partition = F.concat_ws("-", "topic", "partition")
    return {
        "sends": workload.agg(
            F.unix_micros(F.min("sent_at")).alias("first"),
            F.unix_micros(last).alias("last"),
            F.count_if(acked).alias("acked"),
            quantiles(latency, _PERCENTILES.values()).alias("latency"),
            F.max(latency).alias("longest"),
        ),
        "worst": union(measured).agg(
            F.max("unavailability_s").alias("unavailability_s"),
            F.array_sort(F.collect_list(F.when(F.col("acked") == 0, partition))).alias("unacked"),
        ),
        "probe": ledger.where(f"producer >= {PROBE_PRODUCERS}").groupBy("outcome").count(),
    }


def processing(ledger: DataFrame, effects: DataFrame) -> DataFrame:
    """Return in one row how often groups of consumers processed acked records, and how late.

    `once`, `again` and `never` count records, for each group that reads their topic and processed a
    record. The latency is from the send to the first processing, by any clock of this machine.
    """
    record = ["topic", "producer", "sequence"]
    acked = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("sent_at").isNotNull())
    groups = effects.select("group", "topic").distinct()
    times = effects.groupBy("group", *record).agg(
        F.count("*").alias("times"), F.min("processed_at").alias("processed_at")
    )
    each = (
        acked.where(f"producer < {PROBE_PRODUCERS}")
        .select(*record, "sent_at")
        .join(F.broadcast(groups), "topic")
        .join(times, ["group", *record], "left")
    )
    latency = F.unix_micros("processed_at") - F.unix_micros("sent_at")
    return each.agg(
        F.count_if(F.col("times") == 1).alias("once"),
        F.count_if(F.col("times") > 1).alias("again"),
        F.count_if(F.col("times").isNull()).alias("never"),
        quantiles(latency, _PERCENTILES.values()).alias("latency"),
        F.max(latency).alias("longest"),
    )


def as_metrics(answered: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the metrics of a run by their names in `verdict.json`.

    `duration_s`: from the first send to the last outcome, or to the end of the faults if a producer
    stopped for good. `acked_per_s`: over that time. `unavailability_s`: of the worst partition, see
    `unavailability`, or of a producer that stopped. `ack_latency_ms`: from send to ack, None if
    nothing was acked. `unacked_partitions`: TOPIC-N of partitions with sends and without acks. All
    times are 0 for a run without sends. `processing`: None without the question of that name.
    """
    processed = next(iter(answered.get("processing", ())), None)
    (sends,), (worst,) = answered["sends"], answered["worst"]
    duration_s = ((sends["last"] or 0) - (sends["first"] or 0)) / 1e6
    return {
        "duration_s": duration_s,
        "acked_per_s": sends["acked"] / duration_s if duration_s else 0.0,
        "unavailability_s": worst["unavailability_s"] or 0.0,
        "unavailability_gap_s": UNAVAILABILITY_GAP_S,
        "ack_latency_ms": _latency(sends["latency"], sends["longest"]),
        "unacked_partitions": list(worst["unacked"]),
        "processing": processed
        and {
            **{name: processed[name] for name in ("once", "again", "never")},
            "latency_ms": _latency(processed["latency"], processed["longest"]),
        },
    }


def _of_stopped(ledger: DataFrame, stopped: Sequence[int], end: DataFrame) -> DataFrame:
    """Return `unavailability` of each stopped producer's own sends, with one in flight to `end`."""
    own = ledger.where(F.col("producer").isin(*stopped)).select(
        F.concat_ws("#", "topic", "producer").alias("topic"),
        *("partition", "outcome", "sent_at", "resolved_at"),
    )
    silence = own.groupBy("topic", "partition").agg(
        F.lit(str(Outcome.UNKNOWN)).alias("outcome"),
        F.max(F.coalesce("resolved_at", "sent_at")).alias("sent_at"),
    )
    silence = silence.crossJoin(end.withColumnRenamed("end", "resolved_at"))
    # Whether a partition acked nothing is known from the sends of all producers.
    return unavailability(union([own, silence])).withColumn("acked", F.lit(1))


def _latency(percentiles: Sequence[int], longest: int | None) -> dict[str, float] | None:
    if longest is None:
        return None
    named = {name: micros / 1e3 for name, micros in zip(_PERCENTILES, percentiles, strict=True)}
    return named | {"max": longest / 1e3}


def unavailability(ledger: DataFrame) -> DataFrame:
    """Return topic, partition, `acked` (sends), and `unavailability_s`.

    `unavailability_s` is the time with sends in flight and without an ack. Between two acks it
    starts with the first send that resolves after the first ack, so that an idle producer is not an
    outage. Before the first ack it starts with the first send; after the last ack it ends with the
    last outcome. Stretches up to `UNAVAILABILITY_GAP_S` are not counted. A send without an outcome,
    because its producer died, counts only at the moment it was sent.

        at 0.0  sequence 1 sent, acked at 0.1
        at 3.0  sequence 2 sent, failed at 4.0     counted from 3.0
        at 4.1  sequence 3 sent, acked at 5.0      to 5.0: 2.0 s of unavailability
    """
    partition = ["topic", "partition"]
    sends = ledger.where(F.col("sent_at").isNotNull()).select(
        *partition,
        F.unix_micros("sent_at").alias("sent"),
        F.unix_micros(F.coalesce("resolved_at", "sent_at")).alias("resolved"),
        F.when(F.col("outcome") == Outcome.ACKED, F.unix_micros("resolved_at")).alias("acked"),
    )
    # Descending, because Spark has a running minimum only over the rows *before* a row.
    later = (
        Window.partitionBy(*partition)
        .orderBy(F.col("resolved").desc())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    last = F.first("resolved").over(later)
    start = F.greatest("acked", F.min("sent").over(later))
    stop = F.coalesce(F.min("acked").over(later), last, "resolved")
    # Before the first ack, and after each ack.
    before = F.coalesce(F.min("acked"), F.max("resolved")) - F.min("sent")
    after = F.sum(_counted(F.when(F.col("acked").isNotNull(), F.col("after"))))
    return (
        sends.withColumn("after", stop - start)
        .groupBy(*partition)
        .agg(
            F.count("acked").alias("acked"),
            (F.coalesce(after, F.lit(0.0)) + F.coalesce(_counted(before), F.lit(0.0))).alias(
                "unavailability_s"
            ),
        )
    )


def _counted(micros: Column) -> Column:
    """Return a stretch in seconds, null unless it counts."""
    return F.when(micros / 1e6 > UNAVAILABILITY_GAP_S, micros / 1e6)
