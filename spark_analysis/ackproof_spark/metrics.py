"""Duration, throughput, ack latency and unavailability of a run, and its timeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof_spark.reading.run_tables import read_table
from ackproof_spark.tables import LEDGER, PROBE_PRODUCERS, Outcome

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Seconds without an acknowledgement that count as unavailability.
UNAVAILABILITY_GAP_S = 0.5

_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

#: Percentiles are values that occurred; their rank is off by at most 1/this of all of them.
_ACCURACY = 10_000


def metrics(
    spark: SparkSession,
    run_dir: Path | str,
    *,
    unavailability_gap_s: float = UNAVAILABILITY_GAP_S,
) -> dict[str, Any]:
    """Return the metrics of a run, by their names in `verdict.json`.

    `duration_s`: from the first send to the last outcome. `acked_per_s`: over that time.
    `unavailability_s`: of the worst partition, see `unavailability`. `ack_latency_ms`: from send to
    acknowledgement, None if nothing was acked. All times are 0 for a run without sends.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ledger = _ledger(spark, run_dir)
    acked = F.col("outcome") == Outcome.ACKED
    latency = F.when(acked, F.unix_micros("resolved_at") - F.unix_micros("sent_at"))
    row = ledger.agg(
        F.unix_micros(F.min("sent_at")).alias("first"),
        F.unix_micros(F.max(F.greatest("sent_at", "resolved_at"))).alias("last"),
        F.count_if(acked).alias("acked"),
        F.percentile_approx(latency, list(_PERCENTILES.values()), _ACCURACY).alias("latency"),
        F.max(latency).alias("longest"),
    ).first()
    duration_s = ((row["last"] or 0) - (row["first"] or 0)) / 1e6
    gap_s = unavailability(ledger, gap_s=unavailability_gap_s).agg(F.max("unavailability_s"))
    return {
        "duration_s": duration_s,
        "acked_per_s": row["acked"] / duration_s if duration_s else 0.0,
        "unavailability_s": gap_s.first()[0] or 0.0,
        "unavailability_gap_s": unavailability_gap_s,
        "ack_latency_ms": _latency(row["latency"], row["longest"]),
    }


def probe_writes(spark: SparkSession, run_dir: Path | str) -> dict[str, int]:
    """Return how many of the run's sends, by outcome, are the probe's."""
    ledger = read_table(spark, run_dir, "ledger", LEDGER).where(f"producer >= {PROBE_PRODUCERS}")
    return {row["outcome"]: row["count"] for row in ledger.groupBy("outcome").count().collect()}


def _latency(percentiles: Sequence[int], longest: int | None) -> dict[str, float] | None:
    if longest is None:
        return None
    named = {name: micros / 1e3 for name, micros in zip(_PERCENTILES, percentiles, strict=True)}
    return named | {"max": longest / 1e3}


def unavailability(ledger: DataFrame, *, gap_s: float = UNAVAILABILITY_GAP_S) -> DataFrame:
    """Return topic, partition, `unavailability_s`: the time with sends in flight and no ack.

    Between two acks the time is counted from the first send that resolves after the first ack, so
    an idle producer is not an outage, to the second ack. Before the first ack it is counted from
    the first send; after the last ack, to the last send. Stretches up to `gap_s` are not counted.
    A send that never resolved, because its producer died, counts at the moment it was sent only.

        at 0.0  sequence 1 sent, acked at 0.1
        at 3.0  sequence 2 sent, failed at 4.0     counted from 3.0
        at 4.1  sequence 3 sent, acked at 5.0      to 5.0: 2.0 s of unavailability
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    partition = ["topic", "partition"]
    sends = ledger.where(F.col("sent_at").isNotNull()).select(
        *partition,
        F.unix_micros("sent_at").alias("sent"),
        F.unix_micros(F.coalesce("resolved_at", "sent_at")).alias("resolved"),
        F.when(F.col("outcome") == Outcome.ACKED, F.unix_micros("resolved_at")).alias("acked"),
    )
    # In descending order: Spark keeps a running minimum over all rows *before* a row, but computes
    # the minimum over all rows *after* it anew for each row.
    later = (
        Window.partitionBy(*partition)
        .orderBy(F.col("resolved").desc())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    after_acks = (
        sends.withColumn("start", F.min("sent").over(later))
        .withColumn("stop", F.min("acked").over(later))
        .withColumn("last_sent", F.max("sent").over(Window.partitionBy(*partition)))
        .where(F.col("acked").isNotNull())
        .select(
            *partition,
            F.greatest("acked", "start").alias("start"),
            F.coalesce("stop", "last_sent").alias("stop"),
        )
    )
    before_acks = sends.groupBy(*partition).agg(
        F.min("sent").alias("start"), F.coalesce(F.min("acked"), F.max("sent")).alias("stop")
    )
    stretch = (F.col("stop") - F.col("start")) / 1e6
    counted = F.sum(F.when(stretch > gap_s, stretch))
    return (
        after_acks.unionByName(before_acks)
        .groupBy(*partition)
        .agg(F.coalesce(counted, F.lit(0.0)).alias("unavailability_s"))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Counts and latencies from `at` (UTC) until the next bin.

    `sent_…` count the sends made in the bin, by their later outcome; the others count outcomes that
    became known in it. Latencies are milliseconds, of sends acked in the bin; None without one.
    """

    at: datetime
    sent_acked: int = 0
    sent_failed: int = 0
    sent_unknown: int = 0
    sent_aborted: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    aborted: int = 0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_max_ms: float | None = None


_COUNTS = [word for what in Outcome for word in (what.value, f"sent_{what.value}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run in consecutive bins of `bin_s` seconds; empty if nothing was sent."""

    bin_s: float
    bins: Sequence[Bin]


def timeline(spark: SparkSession, run_dir: Path | str, *, bins: int = 300) -> Timeline:
    """Return the run in at most `bins` bins, each of 1, 2 or 5 times a power of ten seconds."""
    from pyspark.sql import functions as F  # noqa: N812

    ledger = _ledger(spark, run_dir)
    sent, resolved = F.unix_micros("sent_at"), F.unix_micros("resolved_at")
    span = ledger.agg(F.min(sent), F.max(F.greatest(sent, resolved))).first()
    if span[0] is None:
        return Timeline(bin_s=0.0, bins=())
    width = _round_up((span[1] - span[0]) / (bins - 1))
    first = span[0] // width

    def number(micros: Column) -> Column:
        return F.floor(micros / width).cast("bigint").alias("bin")

    outcome = F.col("outcome")
    acked = outcome == Outcome.ACKED
    sends = ledger.select(number(sent), F.concat(F.lit("sent_"), outcome).alias("what"))
    outcomes = ledger.select(
        number(resolved), outcome.alias("what"), F.when(acked, resolved - sent).alias("latency")
    )
    rows = (
        sends.unionByName(outcomes, allowMissingColumns=True)
        .where(F.col("bin").isNotNull())
        .groupBy("bin")
        .agg(
            *(F.count_if(F.col("what") == word).alias(word) for word in _COUNTS),
            F.percentile_approx("latency", [0.5, 0.99], _ACCURACY).alias("latency"),
            F.max("latency").alias("longest"),
        )
        .collect()
    )
    by_bin = {row["bin"]: row.asDict() for row in rows}
    start = datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(
        microseconds=first * width
    )
    return Timeline(
        bin_s=width / 1e6,
        bins=tuple(
            _bin(start + timedelta(microseconds=index * width), by_bin.get(first + index))
            for index in range(span[1] // width - first + 1)
        ),
    )


def _bin(at: datetime, row: dict[str, Any] | None) -> Bin:
    if row is None:
        return Bin(at=at)
    counts = {name: row[name] for name in _COUNTS}
    if row["longest"] is None:
        return Bin(at=at, **counts)
    p50, p99 = row["latency"]
    return Bin(
        at=at,
        **counts,
        latency_p50_ms=p50 / 1e3,
        latency_p99_ms=p99 / 1e3,
        latency_max_ms=row["longest"] / 1e3,
    )


def _round_up(micros: float) -> int:
    """Return the next 1, 2 or 5 times a power of ten, and at least a millisecond."""
    power = int(10 ** math.floor(math.log10(max(micros, 1000))))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= micros)


def _ledger(spark: SparkSession, run_dir: Path | str) -> DataFrame:
    """Return the sends of the workload, without those of the probe."""
    return read_table(spark, run_dir, "ledger", LEDGER).where(f"producer < {PROBE_PRODUCERS}")
