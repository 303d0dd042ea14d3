"""The forensics of a run: compares its replicas and explains each lost record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.forensics import differences
from ackproof_spark.forensics.cases import FaultKind, Settings
from ackproof_spark.forensics.causes import Cause, explain
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.functions import DataFrame, F, spark_schema
from ackproof_spark.spark.small_data import answers
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import ANOMALIES, LOCATION, SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Investigation:
    """The results. `counts` lacks anomalies that could not be checked."""

    counts: dict[Anomaly, int]
    causes: list[Cause]


def investigate(
    run: StoredRun,
    run_id: str,
    *,
    lost: int,
    few: bool,
    settings: Mapping[str, Settings],
    faults: Mapping[str, FaultKind],
    compacted: bool = False,
) -> Investigation:
    """Compare the replicas of a run after `compare`, and explain its `lost` records.

    `few`: the run's larger tables have few rows. `settings` are by topic, `faults` by name. Adds to
    the run's `anomalies`, and writes `lost_stories` if there are any. Missing evidence is no error.
    Replicas of `compacted` topics are not compared, because each broker compacts its own log.
    Raises `AnalysisError` if the run was not compared.
    """
    causes = explain(run, run_id, few=few, settings=settings, faults=faults) if lost else []
    counts = {} if compacted else _differences(run, run_id)
    return Investigation(counts=counts, causes=causes)


def _differences(run: StoredRun, run_id: str) -> dict[Anomaly, int]:
    """Count the differences of each kind, and add them to the run's anomalies."""
    if not run.has("replica_logs"):
        return {}
    differing = answers(diverged=differences.diverged(run), short=differences.short(run))
    counts = dict.fromkeys((Anomaly.DIVERGED, Anomaly.GAP), 0)
    if differing["diverged"]:
        diverged = run.spark.createDataFrame(differing["diverged"], _FOUND)
        counts[Anomaly.DIVERGED] = _add(diverged, Anomaly.DIVERGED, run, run_id)
    if differing["short"]:
        partitions = [(row["topic"], row["partition"]) for row in differing["short"]]
        counts[Anomaly.GAP] = _add(differences.gaps(run, partitions), Anomaly.GAP, run, run_id)
    if not run.listed("replica_logs").where("not complete").isEmpty():
        # In incomplete replica logs, a count of 0 proves nothing.
        counts = {anomaly: count for anomaly, count in counts.items() if count}
    return counts


_FOUND = "topic string, partition int, offset bigint, found string"


def _add(rows: DataFrame, anomaly: Anomaly, run: StoredRun, run_id: str) -> int:
    """Append rows (`_FOUND`) to the run's anomalies; return their number."""
    known = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "run_id": F.lit(run_id),
        "anomaly": F.lit(anomaly.value),
        **{name: F.col(name) for name in rows.columns},
    }
    columns = [
        known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in spark_schema(ANOMALIES)
    ]
    rows = rows.persist()
    try:
        count: int = rows.count()
        if count:
            place = f"{address(run.run_dir)}/{LOCATION['anomalies']}"
            rows.select(*columns).coalesce(1).write.mode("append").parquet(place)
        return count
    finally:
        rows.unpersist()
        run.forget("anomalies")
