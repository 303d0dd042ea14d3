"""The comparison of one run: all checks, their findings counted and stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks import (
    aborted_read,
    corrupt,
    duplicated,
    hanging_transaction,
    inconsistent,
    lost,
    phantom,
    poll_order,
    read_then_gone,
    reordered,
    reprocessed,
    unprocessed,
    unseen,
    zombie_commit,
)
from ackproof_spark.checks.absent import absent, removed
from ackproof_spark.checks.client_tables import ClientTables
from ackproof_spark.matching.offset_pass import unmatched
from ackproof_spark.matching.row_groups import Sizing, Unaligned
from ackproof_spark.reading.run_tables import RunTables, has_table
from ackproof_spark.spark.functions import F, Window, union
from ackproof_spark.spark.small_data import local, small_plans
from ackproof_spark.spark.storage import address, store
from ackproof_spark.tables import LOCATION, Outcome, RecordState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHECKS = {
    Anomaly.LOST: lost.find,
    Anomaly.DUPLICATED: duplicated.find,
    Anomaly.REORDERED: reordered.find,
    Anomaly.INCONSISTENT: inconsistent.find,
    Anomaly.PHANTOM: phantom.find,
    Anomaly.CORRUPT: corrupt.find,
    Anomaly.UNSEEN: unseen.find,
    Anomaly.ABORTED_READ: aborted_read.find,
}

#: Checks of clients, by the tables of which a run must have one.
CLIENT_CHECKS = {
    ("transactions",): (aborted_read.find_given, zombie_commit.find),
    ("hanging_transactions",): (hanging_transaction.find,),
    ("reads",): (unprocessed.find, reprocessed.find, poll_order.find),
    ("reads", "probe"): (read_then_gone.find,),
}

#: How many rows of each anomaly are shown; the table holds all.
TELLING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many sends there were by outcome, and the anomalies found.

    `removed` sends were acked, and retention or compaction may have removed their records; None if
    they were not counted. `counts` has every anomaly, 0 where there is none. `telling` holds up to
    `TELLING` rows of `tables.ANOMALIES` for each anomaly, in the order of `Anomaly`: rows within a
    fault window first, then the earliest.
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    aborted: int
    counts: dict[Anomaly, int]
    telling: list[dict[str, Any]]
    removed: int | None = None


def find(tables: RunTables, anomalies: Iterable[Anomaly] = tuple(CHECKS)) -> DataFrame:
    """Return the rows that these checks find, in the columns of `tables.ANOMALIES`."""
    return union(CHECKS[anomaly](tables) for anomaly in anomalies)


def _worth_running(tables: RunTables) -> list[Anomaly]:
    """Return the anomalies whose checks have any rows to look at; at least one.

    Counting evaluates the tables that the checks start from, so that Spark knows how small they
    are before it plans the checks.
    """

    def count(frame: DataFrame, **conditions: Column | str) -> dict[str, int]:
        counts = frame.agg(*(F.count_if(c).alias(name) for name, c in conditions.items()))
        return dict(counts.first().asDict())

    state = F.col("state")
    suspects = count(
        tables.suspects,
        absent="absent",
        astray=F.col("displaced") | (F.col("absent") & F.col("acked_offset").isNotNull()),
        repeated=F.col("copies") > 1,
        phantom="phantom",
        withdrawn="withdrawn",
        behind=F.col("ahead").isNotNull(),
    )
    damaged = count(
        tables.damaged, corrupt=state == RecordState.CORRUPT, foreign=state == RecordState.FOREIGN
    )
    missing = {"lost": 0, "unseen": 0}
    if suspects["absent"]:
        missing = count(absent(tables), lost="decidable", unseen=~F.col("decidable"))
    looked_at = {
        Anomaly.LOST: missing["lost"],
        Anomaly.DUPLICATED: suspects["repeated"],
        Anomaly.REORDERED: suspects["behind"],
        Anomaly.INCONSISTENT: suspects["astray"],
        Anomaly.PHANTOM: suspects["phantom"] + damaged["foreign"],
        Anomaly.CORRUPT: damaged["corrupt"],
        Anomaly.UNSEEN: missing["unseen"],
        Anomaly.ABORTED_READ: suspects["withdrawn"],
    }
    return [anomaly for anomaly, number in looked_at.items() if number] or [Anomaly.REORDERED]


def compare(
    spark: SparkSession,
    run_dir: Path | str,
    *,
    output: Path | str | None = None,
    omitted: Collection[str] = (),
    keys: Mapping[str, int] | None = None,
    count_removed: bool = False,
    sizing: Sizing = Sizing(),  # noqa: B008  frozen
) -> Comparison:
    """Compare the run's ledger with its final log, and store the `anomalies` table.

    The run goes through the pass by offset first (`matching.offset_pass`), if the layout of its
    files allows it.

    `run_dir` is a folder, or as text any address that Spark reads; the table is written there, or
    below `output`. The `omitted` anomalies are not reported. `keys` are the numbers of keys of
    compacted topics. Raises `AnalysisError` if the run lacks a table.
    """
    whole = replace(RunTables.read(spark, run_dir), keys=keys or {})
    place = f"{address(run_dir if output is None else output)}/{LOCATION['anomalies']}"
    with ExitStack() as caches:
        tables = whole
        with suppress(Unaligned):
            tables = unmatched(spark, run_dir, whole, sizing=sizing, caches=caches)
        outcomes, rows = tables.outcomes, tables.rows
        with small_plans(spark, rows=rows, few=sizing.few):
            found, gone = _found(
                tables, few=rows <= sizing.few, caches=caches, count_removed=count_removed
            )
        client_checks = [
            check
            for names, checks in CLIENT_CHECKS.items()
            if any(has_table(spark, run_dir, name) for name in names)
            for check in checks
        ]
        if client_checks:  # these checks need the whole run
            rows = max(rows, sum(outcomes.values()))
        with small_plans(spark, rows=rows, few=sizing.few):
            clients = ClientTables.read(spark, run_dir)
            keep = local if rows <= sizing.few else partial(_persisted, caches)
            for check in client_checks:
                found = found.unionByName(check(replace(whole, keep=keep), clients))
            if omitted:
                found = found.where(~found["anomaly"].isin(list(omitted)))
            anomalies = store(found.hint("rebalance"), place)
            counts, telling = _summary(anomalies)
    return Comparison(
        sent=sum(outcomes.values()),
        acked=outcomes.get(Outcome.ACKED, 0),
        failed=outcomes.get(Outcome.FAILED, 0),
        unknown=outcomes.get(Outcome.UNKNOWN, 0),
        aborted=outcomes.get(Outcome.ABORTED, 0),
        counts=counts,
        telling=telling,
        removed=gone,
    )


def _persisted(caches: ExitStack, frame: DataFrame) -> DataFrame:
    caches.callback(frame.persist().unpersist)
    return frame


def _found(
    tables: RunTables, *, few: bool, caches: ExitStack, count_removed: bool
) -> tuple[DataFrame, int | None]:
    """Return the rows that all checks find, and how many sends are `absent.removed`.

    Few rows are checked in one partition, unshuffled.
    """
    persisted = partial(_persisted, caches)
    if not few:
        tables = replace(tables, keep=persisted)
        return find(tables, _worth_running(tables)), _removed(tables, count_removed)
    tables = replace(
        tables,
        keep=local,
        ledger=persisted(tables.ledger.coalesce(1)),
        final_log=persisted(tables.final_log.coalesce(1)),
    )
    return local(find(tables, _worth_running(tables))), _removed(tables, count_removed)


def _removed(tables: RunTables, wanted: bool) -> int | None:
    return removed(tables).count() if wanted else None


def _summary(anomalies: DataFrame) -> tuple[dict[Anomaly, int], list[dict[str, Any]]]:
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
