"""The harness's door to a warehouse: what a verdict says, as rows."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import SparkError, WarehouseError
from ackproof.runs.directory import RunRecord, read_record, read_verdict
from ackproof.runs.verdict import SENDS, Verdict
from ackproof_spark import errors as analysis_errors
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import JudgedRun
from ackproof_spark.warehouse.schemas import ANOMALY_COUNTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackproof_spark.warehouse.warehouse import Warehouse

#: Where CI systems say which commit they test: GitHub, GitLab, Jenkins.
COMMIT_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


def read_runs(
    run_dirs: Sequence[Path], *, commit: str | None, comparison: str | None
) -> list[JudgedRun]:
    """Return stored runs as a warehouse takes them, in order of time.

    `commit` None: what the CI system says, if it says any. With `comparison` the runs are its
    trials, numbered within each configuration. Raises RunDirectoryError for a run that is none,
    is damaged, or was not judged, or that is named twice.
    """
    commit = commit or next(filter(None, map(os.environ.get, COMMIT_VARIABLES)), None)
    found = sorted(
        ((read_verdict(directory), directory) for directory in run_dirs),
        key=lambda pair: (pair[0].started_at, pair[0].run_id),
    )
    runs = []
    seen: list[tuple[str, str]] = []
    for verdict, directory in found:
        trial = None
        if comparison:
            seen.append((verdict.scenario, verdict.configuration_name))
            trial = {
                "comparison": comparison,
                "scenario": verdict.scenario,
                "configuration_name": verdict.configuration_name,
                "trial": seen.count(seen[-1]),
            }
        runs.append(_judged(verdict, read_record(directory), directory, commit, trial))
    return runs


def _judged(
    verdict: Verdict,
    record: RunRecord,
    directory: Path,
    commit: str | None,
    trial: Mapping[str, Any] | None,
) -> JudgedRun:
    metrics = verdict.metrics
    latency = metrics.ack_latency_ms
    run = {
        "scenario": verdict.scenario,
        "configuration_name": verdict.configuration_name or verdict.scenario,
        "configuration": json.dumps(verdict.configuration, sort_keys=True),
        "seed": verdict.seed,
        "kafka_version": verdict.kafka_version,
        "image": verdict.image,
        "commit": commit,
        "started_at": verdict.started_at,
        "finished_at": verdict.finished_at,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
        **{word: verdict.observed.get(word, 0) for word in (*SENDS, *ANOMALY_COUNTS)},
        "observed": json.dumps(verdict.observed),
        "duration_s": metrics.duration_s,
        "acked_per_s": metrics.acked_per_s,
        "unavailability_s": metrics.unavailability_s,
        "availability": 1 - metrics.unavailability_s / metrics.duration_s
        if metrics.duration_s
        else None,
        **{
            f"ack_latency_{name}_ms": getattr(latency, name) if latency else None
            for name in ("p50", "p95", "p99", "p999", "max")
        },
    }
    predictions = [
        {
            "anomaly": anomaly,
            "prediction": outlook,
            "reason": verdict.prediction.reasons.get(anomaly),
            "observed": verdict.observed.get(anomaly, 0),
        }
        for anomaly, outlook in verdict.predicted.items()
    ]
    everything = (verdict.model_dump(mode="json"), record.troubles, commit, trial)
    return JudgedRun(
        run_id=verdict.run_id,
        directory=str(directory.resolve()),
        run=run,
        trial=trial,
        predictions=predictions,
        findings=[finding.model_dump() for finding in verdict.findings],
        troubles=record.troubles,
        digest=hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest(),
    )


def address(place: str) -> str:
    """Return a warehouse's address: a folder of this machine is made absolute."""
    return place if "://" in place or place.startswith("file:") else str(Path(place).resolve())


def delta_there() -> bool:
    """Return whether Delta Lake can be used: its jars were fetched, by `ci/setup` or by hand."""
    from ackproof_spark.spark.connector import Package, jars

    return bool(jars(Package.DELTA))


def format_of(spark: SparkSession, place: str) -> Format:
    """Return the format of the warehouse at `place`, or of a new one: Delta where it is there."""
    from ackproof_spark.warehouse.storage import Storage
    from ackproof_spark.warehouse.warehouse import read_head

    head = read_head(Storage(spark, place))
    if head is not None:
        return head.format
    return Format.DELTA if delta_there() else Format.PARQUET


@contextmanager
def spark_for(place: str, kind: Format | None = None) -> Iterator[SparkSession]:
    """Yield the Spark session for a warehouse of format `kind`, or of that which is there.

    Raises WarehouseError if there is something else, SparkError for whatever Spark cannot do.
    """
    from ackproof_spark.spark.session import session, use_delta

    try:
        if kind is Format.DELTA or (kind is None and delta_there()):
            use_delta()
        spark = session()
        if kind is None and format_of(spark, place) is Format.DELTA and not delta_there():
            use_delta()  # which says how to get it
        yield spark
    except analysis_errors.WarehouseError as error:
        raise WarehouseError(str(error)) from error
    except analysis_errors.AnalysisError as error:
        raise SparkError(str(error)) from error


@contextmanager
def opened(place: str) -> Iterator[Warehouse]:
    """Yield the warehouse at an address; raises what `spark_for` does, and if there is none."""
    from ackproof_spark.warehouse.warehouse import Warehouse

    with spark_for(place) as spark:
        yield Warehouse.open(spark, place)
