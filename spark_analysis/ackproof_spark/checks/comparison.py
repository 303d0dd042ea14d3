"""The comparison of a run: runs all checks, counts and stores the anomalies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks import absent, registered
from ackproof_spark.checks.check import Check
from ackproof_spark.matching.offset_pass import unmatched
from ackproof_spark.matching.row_groups import Sizing, TakeGeneralPath
from ackproof_spark.reading import application_records
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import (
    Column,
    DataFrame,
    F,
    SparkSession,
    Window,
    no_rows,
    union,
)
from ackproof_spark.spark.session import driver_here
from ackproof_spark.spark.small_data import answers, local, small_plans
from ackproof_spark.spark.storage import address, is_here, store, store_here
from ackproof_spark.tables import ANOMALIES, LOCATION, Outcome

#: How many rows of each anomaly are shown; the table has all.
SHOWN_PER_ANOMALY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The numbers of sends by outcome, and the anomalies.

    `removed` sends were acked, and retention or compaction may have removed their records; None if
    they were not counted. `counts` has every anomaly, also those with 0. `shown` has up to
    `SHOWN_PER_ANOMALY` rows of `tables.ANOMALIES` for each anomaly, in the order of `Anomaly`: rows
    within a fault window first, then the earliest. `general`: why the tables were compared whole;
    empty if the pass by offset reduced them.
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    aborted: int
    counts: dict[Anomaly, int]
    shown: list[dict[str, Any]]
    removed: int | None = None
    general: str = ""

    @property
    def path(self) -> str:
        """How the tables were compared, in words."""
        return f"general: {self.general}" if self.general else "by offset"


def _with_input(tables: RunTables, checks: Sequence[Check]) -> list[Check]:
    """Return the checks that have input rows.

    Counting evaluates the checks' input, so that Spark knows its size when it plans the checks.
    """

    def counts(conditions: Mapping[Anomaly, str]) -> list[Column]:
        return [F.count_if(F.expr(condition)).alias(name) for name, condition in conditions.items()]

    counted = answers(
        suspects=tables.suspects.agg(*counts({check.anomaly: check.suspects for check in checks})),
        damaged=tables.damaged.agg(*counts({check.anomaly: check.damaged for check in checks})),
    )
    (suspect,), (damage,) = counted["suspects"], counted["damaged"]
    checks = [check for check in checks if suspect[check.anomaly] or damage[check.anomaly]]
    narrowed = {check.anomaly: check.absent for check in checks if check.absent}
    if not narrowed:
        return checks
    number = absent.absent(tables).agg(*counts(narrowed)).first().asDict()
    return [check for check in checks if not check.absent or number[check.anomaly]]


def compare(
    spark: SparkSession,
    run_dir: Path | str | StoredRun,
    *,
    output: Path | str | None = None,
    omitted: Collection[str] = (),
    keys: Mapping[str, int] | None = None,
    count_removed: bool = False,
    sizing: Sizing = Sizing(),  # noqa: B008  frozen
) -> Comparison:
    """Compare the run's ledger with its final log, and store the table `anomalies`.

    If the layout of the files allows it, `matching.offset_pass` first reduces the tables to the
    rows that do not match. `run_dir` is a folder, the address of one as text, or an opened run;
    the table is written there, or below `output`. `omitted` anomalies are not reported. `keys`:
    the number of keys of each compacted topic. Raises `AnalysisError` if the run lacks a table.
    """
    run = run_dir if isinstance(run_dir, StoredRun) else StoredRun(spark=spark, run_dir=run_dir)
    of_records, of_clients = registered()
    whole = replace(RunTables.of(run), keys=keys or {})
    place = f"{address(run.run_dir if output is None else output)}/{LOCATION['anomalies']}"
    with ExitStack() as caches:

        def persisted(frame: DataFrame) -> DataFrame:
            caches.callback(frame.persist().unpersist)
            return frame

        tables, general = whole, ""
        try:
            tables = unmatched(spark, run.run_dir, whole, sizing=sizing, caches=caches)
        except TakeGeneralPath as reason:
            general = str(reason)
        outcomes, rows = tables.outcomes, tables.rows
        found: list[DataFrame] = []
        gone = 0 if count_removed else None
        if rows:
            with small_plans(spark, rows=rows, few=sizing.few):
                tables = replace(tables, keep=local if rows <= sizing.few else persisted)
                found = [check.find(tables) for check in _with_input(tables, of_records)]
                gone = absent.removed(tables).count() if count_removed else None
        client_checks = [check for check in of_clients if any(map(run.has, check.tables))]
        if client_checks:  # these checks need the whole run
            rows = max(rows, sum(outcomes.values()))
        few = rows <= sizing.few
        with small_plans(spark, rows=rows, few=sizing.few):
            whole = replace(whole, keep=local if few else persisted)
            if client_checks and run.has("read_identities"):
                application_records.name_reads(run, whole.keep)
            found += [check.find(whole, run) for check in client_checks]
            counts, shown = _stored(found, place, omitted=omitted, few=few, spark=spark)
    return Comparison(
        sent=sum(outcomes.values()),
        acked=outcomes.get(Outcome.ACKED, 0),
        failed=outcomes.get(Outcome.FAILED, 0),
        unknown=outcomes.get(Outcome.UNKNOWN, 0),
        aborted=outcomes.get(Outcome.ABORTED, 0),
        counts=dict.fromkeys(Anomaly, 0) | counts,
        shown=shown,
        removed=gone,
        general=general,
    )


def _stored(
    found: Sequence[DataFrame],
    place: str,
    *,
    omitted: Collection[str],
    few: bool,
    spark: SparkSession,
) -> tuple[dict[Anomaly, int], list[dict[str, Any]]]:
    """Store the anomalies; return the count and the shown rows of each."""
    if not found and is_here(place) and driver_here(spark):
        store_here(ANOMALIES.empty_table(), place)
        return {}, []
    rows = union(found or [no_rows(spark, ANOMALIES)])
    if omitted:
        rows = rows.where(~F.col("anomaly").isin(list(omitted)))
    return _summary(store(rows.hint("rebalance"), place, few=few))


def _summary(anomalies: DataFrame) -> tuple[dict[Anomaly, int], list[dict[str, Any]]]:
    by_anomaly = Window.partitionBy("anomaly")
    in_order = by_anomaly.orderBy(
        F.col("window").isNull(),
        F.col("resolved_at").asc_nulls_last(),
        *("topic", "partition", "offset", "producer", "sequence"),
    )
    rows = (
        anomalies.withColumn("rank", F.row_number().over(in_order))
        .withColumn("count", F.count("*").over(by_anomaly))
        .where(F.col("rank") <= SHOWN_PER_ANOMALY)
        .collect()
    )
    order = list(Anomaly)
    rows.sort(key=lambda row: (order.index(row["anomaly"]), row["rank"]))
    counts = {Anomaly(row["anomaly"]): row["count"] for row in rows}
    return counts, [{name: row[name] for name in anomalies.columns} for row in rows]
