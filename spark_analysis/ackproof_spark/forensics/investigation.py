"""The forensics of a run: compare its replicas, explain each lost record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.forensics import divergence, gaps
from ackproof_spark.forensics.cases import FaultKind, Settings
from ackproof_spark.forensics.causes import Cause, explain
from ackproof_spark.forensics.evidence import Evidence
from ackproof_spark.reading.run_tables import RunTables, read_table
from ackproof_spark.spark.functions import F, spark_schema
from ackproof_spark.spark.small_data import FEW, local, side_by_side
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import ANOMALIES, LOCATION, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Investigation:
    """The findings. `counts` lacks anomalies that could not be checked."""

    counts: dict[Anomaly, int]
    causes: list[Cause]


def investigate(
    spark: SparkSession,
    run_dir: Path | str,
    *,
    lost: int,
    rows: int,
    settings: Mapping[str, Settings],
    faults: Mapping[str, FaultKind],
    compacted: bool = False,
) -> Investigation:
    """Compare the replicas of a run after `compare`, and explain its `lost` records.

    `rows` bounds the rows of its larger tables: the evidence of few is kept at the driver.
    `settings` are by topic, `faults` by name. Adds anomalies to the run's `anomalies`, and writes
    `lost_stories` if there are any. Missing evidence is no error; it limits what can be found.
    Replicas of `compacted` topics are not compared: each broker compacts for itself. Raises
    `AnalysisError` if the run was not compared.
    """
    tables, evidence = RunTables.read(spark, run_dir), Evidence.read(spark, run_dir)
    anomalies = read_table(spark, run_dir, "anomalies", ANOMALIES)
    if rows <= FEW:  # several questions start from each table
        evidence = evidence.kept(local)

    def explained() -> list[Cause]:
        return explain(
            spark,
            run_dir,
            tables=tables,
            anomalies=anomalies,
            evidence=evidence,
            settings=settings,
            faults=faults,
        )

    def compared() -> dict[Anomaly, int]:
        return {} if compacted else _differences(tables, evidence, run_dir)

    causes, counts = side_by_side(explained if lost else list, compared, rows=rows)
    return Investigation(counts=counts, causes=causes)


def _differences(tables: RunTables, evidence: Evidence, run_dir: Path | str) -> dict[Anomaly, int]:
    """Return how many differences there are of each kind; store them among the anomalies."""
    if not evidence.has_replicas:
        return {}
    found = {
        Anomaly.DIVERGED: divergence.find(evidence, tables.partition_ends),
        Anomaly.GAP: gaps.find(evidence, tables),
    }
    counts = {
        anomaly: 0 if rows is None else _add(rows, anomaly, tables.run_id, run_dir)
        for anomaly, rows in found.items()
    }
    if not evidence.replica_logs.where("not complete").isEmpty():
        # Finding nothing in a part says nothing about the whole.
        counts = {anomaly: count for anomaly, count in counts.items() if count}
    return counts


def _add(rows: DataFrame, anomaly: Anomaly, run_id: str, run_dir: Path | str) -> int:
    """Append rows (topic, partition, offset, found) to the run's anomalies; return their number."""
    rows = rows.persist()
    try:
        count: int = rows.count()
        if count:
            schema = spark_schema(ANOMALIES)
            known = {
                "schema_version": F.lit(SCHEMA_VERSION),
                "run_id": F.lit(run_id),
                "anomaly": F.lit(anomaly.value),
            }
            columns = [
                known.get(
                    field.name, F.col(field.name) if field.name in rows.columns else F.lit(None)
                )
                .cast(field.dataType)
                .alias(field.name)
                for field in schema
            ]
            place = f"{address(run_dir)}/{LOCATION['anomalies']}"
            rows.select(*columns).coalesce(1).write.mode("append").parquet(place)
        return count
    finally:
        rows.unpersist()
