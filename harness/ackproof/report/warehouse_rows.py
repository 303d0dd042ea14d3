"""Stored runs as rows of a warehouse, and opening a warehouse."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import RunDirectoryError, ScenarioError, translated
from ackproof.report.wording import outcome
from ackproof.runs.directory import RunRecord, read_record, read_verdict
from ackproof.runs.verdict import SENDS, Verdict
from ackproof.scenario import loader
from ackproof.scenario.types import setting_text
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import JudgedRun
from ackproof_spark.warehouse.schemas import ANOMALY_COUNTS

if TYPE_CHECKING:
    from ackproof_spark.warehouse.warehouse import Warehouse

REPORT = "report.html"

#: Environment variables of GitHub, GitLab and Jenkins with the tested commit.
COMMIT_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


def read_runs(
    run_dirs: Sequence[Path],
    *,
    commit: str | None,
    comparison: str | None,
    reports: str | None = None,
) -> list[JudgedRun]:
    """Return stored runs as rows of a warehouse, sorted by time.

    The default of `commit` comes from `COMMIT_VARIABLES`. With `comparison` the runs are its
    trials, numbered within each configuration. `reports` is the address below which the run
    directories are published; without it a row links to the page on this machine. Raises
    RunDirectoryError for a directory that is not a finished run, is damaged, or has no verdict, and
    for two directories of the same run.
    """
    commit = commit or next(filter(None, map(os.environ.get, COMMIT_VARIABLES)), None)
    by_time = sorted(
        ((read_verdict(directory), directory) for directory in run_dirs),
        key=lambda pair: (pair[0].started_at, pair[0].run_id),
    )
    _distinct(by_time)
    runs = []
    trials: Counter[tuple[str, str]] = Counter()
    for verdict, directory in by_time:
        trial = None
        if comparison:
            configuration = (verdict.scenario, verdict.configuration_name)
            trials[configuration] += 1
            trial = {
                "comparison": comparison,
                "scenario": verdict.scenario,
                "configuration_name": verdict.configuration_name,
                "trial": trials[configuration],
            }
        record = read_record(directory)
        if record.run_id != verdict.run_id:  # the tables' rows have the record's run_id
            raise RunDirectoryError(
                f"{directory}: verdict.json is of the run {verdict.run_id}, and the tables are of "
                f"{record.run_id}",
                hint=f"Judge it again: ackproof check {directory}",
            )
        judged = _judged(
            verdict,
            record,
            directory,
            trial=trial,
            commit=commit,
            report=_report(directory, reports),
        )
        runs.append(judged)
    return runs


def _distinct(runs: Sequence[tuple[Verdict, Path]]) -> None:
    """Raise RunDirectoryError if two directories have the same run."""
    seen: dict[str, Path] = {}
    for verdict, directory in runs:
        other = seen.setdefault(verdict.run_id, directory)
        if other != directory:
            raise RunDirectoryError(
                f"{other} and {directory} are the same run, {verdict.run_id}",
                hint="Load one of them.",
            )


def _judged(
    verdict: Verdict,
    record: RunRecord,
    directory: Path,
    *,
    trial: Mapping[str, Any] | None,
    commit: str | None,
    report: str | None,
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
        "outcome": outcome(verdict).text,
        "report": report,
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
            "prediction": prediction,
            "reason": verdict.prediction.reasons.get(anomaly),
            "observed": verdict.observed.get(anomaly, 0),
        }
        for anomaly, prediction in verdict.predicted.items()
    ]
    everything = (verdict.model_dump(mode="json"), record.troubles, commit, trial, report)
    return JudgedRun(
        run_id=verdict.run_id,
        directory=str(directory.resolve()),
        run=run,
        trial=trial,
        predictions=predictions,
        findings=[finding.model_dump() for finding in verdict.findings],
        causes=[cause.model_dump() for cause in verdict.causes],
        availability=_availability(verdict),
        settings=_settings(directory),
        troubles=record.troubles,
        digest=hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest(),
    )


def _report(directory: Path, reports: str | None) -> str | None:
    """Return the address of a run's page; None if it has none."""
    page = (directory / REPORT).resolve()
    if not page.exists():
        return None
    return page.as_uri() if reports is None else f"{reports.rstrip('/')}/{directory.name}/{REPORT}"


def _availability(verdict: Verdict) -> list[dict[str, Any]]:
    probe = verdict.metrics.probe
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "action": action,
            "share": share.share,
            "outages": share.outages,
            "longest_outage_s": share.longest_s,
        }
        for part in (probe.partitions if probe else ())
        for action, share in (("read", part.read), ("write", part.write))
    ]


def _settings(directory: Path) -> list[dict[str, Any]]:
    """Return every setting of the scenario; an empty list if this version cannot read it."""
    try:
        scenario = loader.load(directory / "scenario.yaml")[0].scenario
    except ScenarioError:
        return []
    of_scopes: list[tuple[str, str | None, Mapping[str, Any]]] = [
        ("producer", None, scenario.workload.settings.as_client_settings()),
        ("broker", None, {"brokers": scenario.cluster.brokers, **scenario.cluster.settings}),
    ]
    for name, topic in scenario.topics.items():
        counts = {
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "min.insync.replicas": topic.min_insync_replicas,
        }
        of_scopes.append(("topic", name, counts | topic.settings))
    return [
        {"scope": scope, "name": name, "key": key, "value": setting_text(value)}
        for scope, name, settings in of_scopes
        for key, value in settings.items()
    ]


def address(location: str) -> str:
    """Return a warehouse's address; local paths become absolute."""
    local = "://" not in location and not location.startswith("file:")
    return str(Path(location).resolve()) if local else location


def has_jars(kind: Format) -> bool:
    from ackproof_spark.spark.connector import Package, jars

    return kind is Format.PARQUET or bool(jars(Package(kind.value)))


def default_format() -> Format:
    """Return Delta Lake if its jars were fetched, else Parquet.

    With Spark Connect it is Parquet, because the server has its own jars.
    """
    from ackproof_spark.spark.session import is_connect

    return Format.DELTA if has_jars(Format.DELTA) and not is_connect() else Format.PARQUET


@contextmanager
def opened(
    location: str, *, create: bool = False, kind: Format | None = None
) -> Iterator[Warehouse]:
    """Yield the warehouse at an address, in a Spark session with the jars of its format.

    With `create` a missing warehouse is created in format `kind` (None: `default_format`). Raises
    WarehouseError if the address has no warehouse, or a warehouse of another format; SparkError if
    Spark fails.
    """
    from ackproof_spark.spark.connector import Package
    from ackproof_spark.spark.session import is_connect, session, use
    from ackproof_spark.warehouse.warehouse import Storage, Warehouse, read_format

    with translated():
        # The format is not known yet. Adding jars later would restart Spark.
        for known in (Format.DELTA, Format.ICEBERG):
            if not is_connect() and (has_jars(known) or known is kind):
                use(Package(known.value))
        stored = read_format(Storage.of(session(), location))
        if stored is not None and not has_jars(stored) and not is_connect():
            use(Package(stored.value))  # raises an error with the command that fetches them
        if create:
            yield Warehouse.create(session(), location, kind or stored or default_format())
        else:
            yield Warehouse.open(session(), location)
