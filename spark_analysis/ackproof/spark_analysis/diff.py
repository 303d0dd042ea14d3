"""The comparison itself: every check over one run, and what they found, counted and stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.spark_analysis import corrupt, duplicated, lost, phantom, reordered, unseen
from ackproof.spark_analysis.run_tables import RunTables
from ackproof.spark_analysis.tables import LOCATION, Anomaly, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKS = {
    Anomaly.LOST: lost.find,
    Anomaly.DUPLICATED: duplicated.find,
    Anomaly.REORDERED: reordered.find,
    Anomaly.PHANTOM: phantom.find,
    Anomaly.CORRUPT: corrupt.find,
    Anomaly.UNSEEN: unseen.find,
}

#: How many rows of each anomaly are shown; the table holds all.
TELLING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What was sent, and what is wrong with what can be read.

    `counts` has every anomaly, 0 where there is none. `telling` holds up to `TELLING` rows of
    `tables.ANOMALIES` an anomaly, in `Anomaly`'s order: those within a fault window first, then
    the earliest.
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    counts: dict[Anomaly, int]
    telling: list[dict[str, Any]]


def find_all(tables: RunTables) -> DataFrame:
    """Return what every check found, one row an anomaly, in `tables.ANOMALIES`'s columns."""
    from pyspark.sql import DataFrame

    return reduce(DataFrame.unionByName, (find(tables) for find in CHECKS.values()))


def diff(spark: SparkSession, run_dir: Path | str, *, output: Path | str | None = None) -> Diff:
    """Compare the run's ledger with its final log, and store the `anomalies` table.

    `run_dir` is a folder, or as text anything Spark can read; the table goes there, or below
    `output`. Raises `AnalysisError` if the run lacks a table.
    """
    run_dir = run_dir.resolve() if isinstance(run_dir, Path) else run_dir
    tables = RunTables.read(spark, run_dir)
    place = f"{run_dir if output is None else output}/{LOCATION['anomalies']}"
    # Counting fills the caches, and tells Spark how small they are before it plans the checks.
    small = (tables.suspects.persist(), tables.damaged.persist())
    try:
        for frame in small:
            frame.count()
        find_all(tables).hint("rebalance").write.mode("overwrite").parquet(place)
    finally:
        for frame in small:
            frame.unpersist()
    outcomes = {
        row["outcome"]: row["count"] for row in tables.ledger.groupBy("outcome").count().collect()
    }
    counts, telling = _summary(spark.read.parquet(place))
    return Diff(
        sent=sum(outcomes.values()),
        acked=outcomes.get(Outcome.ACKED, 0),
        failed=outcomes.get(Outcome.FAILED, 0),
        unknown=outcomes.get(Outcome.UNKNOWN, 0),
        counts=counts,
        telling=telling,
    )


def _summary(anomalies: DataFrame) -> tuple[dict[Anomaly, int], list[dict[str, Any]]]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    by_anomaly = Window.partitionBy("anomaly")
    telling_first = by_anomaly.orderBy(
        F.col("window").isNull(),
        F.col("resolved_at").asc_nulls_last(),
        *("topic", "partition", "offset", "producer", "sequence"),
    )
    rows = (
        anomalies.withColumn("rank", F.row_number().over(telling_first))
        .withColumn("count", F.count("*").over(by_anomaly))
        .where(F.col("rank") <= TELLING)
        .collect()
    )
    order = list(Anomaly)
    counts = dict.fromkeys(order, 0)
    telling = []
    for row in sorted(rows, key=lambda row: (order.index(row["anomaly"]), row["rank"])):
        counts[Anomaly(row["anomaly"])] = row["count"]
        telling.append({name: row[name] for name in anomalies.columns})
    return counts, telling
