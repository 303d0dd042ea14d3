"""The analysis of a stored run in Spark: comparison, forensics and metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import Comparison, compare
from ackproof_spark.forensics.cases import FaultKind, Settings
from ackproof_spark.forensics.causes import Cause, explain
from ackproof_spark.forensics.differences import compare_replicas
from ackproof_spark.metrics import as_metrics, metric_questions, processing
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.small_data import FEW, answers, small_plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The results of one run.

    `replicas`: the counts of `compare_replicas`. `metrics`: see `ackproof_spark.metrics`.
    `probe_writes`: sends of the probe by outcome. `by_topic`: outcomes and anomalies, without
    anomalies of count 0; empty for one topic.
    """

    comparison: Comparison
    replicas: dict[Anomaly, int]
    causes: list[Cause]
    metrics: Mapping[str, Any]
    probe_writes: Mapping[str, int]
    by_topic: dict[str, dict[str, int]]


def analyse(
    spark: SparkSession,
    run_dir: Path | str,
    *,
    settings: Mapping[str, Settings],
    faults: Mapping[str, FaultKind],
    omitted: Collection[str] = (),
    keys: Mapping[str, int] | None = None,
    count_removed: bool = False,
    compacted: bool = False,
    stopped: Sequence[int] = (),
    faults_ended_at: datetime | None = None,
) -> Analysis:
    """Compare a run's ledger, final log and replicas, explain its losses, and measure it.

    `settings` are by topic, `faults` by name; `stopped` and `faults_ended_at` are those of
    `metric_questions`, the other arguments those of `compare`. Replicas of `compacted` topics are
    not compared, because each broker compacts its own log.
    """
    run = StoredRun(spark=spark, run_dir=run_dir)
    # Opening a table compiles code, too.
    with small_plans(spark, rows=run.rows("ledger", "final_log", "replica_batches")):
        comparison = compare(spark, run, omitted=omitted, keys=keys, count_removed=count_removed)
        run_id, causes = RunTables.of(run).run_id, []
        if lost := comparison.counts[Anomaly.LOST]:
            causes = explain(run, run_id, few=lost <= FEW, settings=settings, faults=faults)
        replicas = {} if compacted else compare_replicas(run, run_id)
        questions = metric_questions(
            run["ledger"], stopped=stopped, faults_ended_at=faults_ended_at
        )
        if run.has("effects"):
            questions["processing"] = processing(run["ledger"], run["effects"])
        if len(settings) > 1:
            questions["outcomes"] = run["ledger"].groupBy("topic", "outcome").count()
            questions["anomalies"] = run["anomalies"].groupBy("topic", "anomaly").count()
        answered = answers(**questions)
    by_topic = {topic: {"sent": 0} for topic in settings} if len(settings) > 1 else {}
    for topic, outcome, count in answered.get("outcomes", ()):
        by_topic[topic]["sent"] += count
        by_topic[topic][outcome] = count
    for topic, anomaly, count in answered.get("anomalies", ()):
        if topic in by_topic:
            by_topic[topic][anomaly] = count
    return Analysis(
        comparison=comparison,
        replicas=replicas,
        causes=causes,
        metrics=as_metrics(answered),
        probe_writes={row["outcome"]: row["count"] for row in answered["probe"]},
        by_topic=by_topic,
    )
