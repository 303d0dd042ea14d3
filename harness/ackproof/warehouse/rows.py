"""Stored runs as rows of a warehouse."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.errors import RunDirectoryError, ScenarioError
from ackproof.report.wording import outcome
from ackproof.runs.directory import PLAN, TRIALS, RunRecord, read_record, read_verdict
from ackproof.runs.verdict import SENDS, Verdict
from ackproof.scenario import loader
from ackproof.scenario.types import setting_text
from ackproof_model.kafka_settings import MIN_INSYNC_REPLICAS
from ackproof_spark.warehouse.configuration import configuration_name, digest
from ackproof_spark.warehouse.load import JudgedRun
from ackproof_spark.warehouse.schemas import ANOMALY_COUNTS

REPORT = "report.html"


def with_trials(paths: Sequence[Path]) -> list[Path]:
    """Return paths in which the directory of a comparison is replaced by those of its trials."""
    found: list[Path] = []
    for path in paths:
        trials = _trials_of(path)
        runs = [path.parent / run_id for run_id in trials if (path.parent / run_id).exists()]
        found += runs if trials else [path]
    return found


def _trials_of(directory: Path) -> dict[str, dict[str, Any]]:
    """Return comparison and number of the trials of a comparison, by run id.

    Without a comparison, or if it is damaged, {}.
    """
    try:
        comparison = json.loads((directory / PLAN).read_text(encoding="utf-8"))["comparison_id"]
        lines = (directory / TRIALS).read_text(encoding="utf-8").splitlines()
        trials = [json.loads(line) for line in lines if line.endswith("}")]
        return {
            trial["run_id"]: {"comparison": comparison, "trial": trial["round"]}
            for trial in trials
            if trial["run_id"] is not None
        }
    except (OSError, ValueError, KeyError, TypeError):  # no comparison, or a damaged one
        return {}


def read_runs(
    run_dirs: Sequence[Path],
    *,
    commit: str | None = None,
    settings: bool = True,
    addresses: Mapping[Path, str] | None = None,
) -> list[JudgedRun]:
    """Return stored runs as rows of a warehouse, sorted by time; `settings` take longest to read.

    `addresses`: where the runs are of which these directories are copies. The default of `commit`
    is that of the run's record. A run is a trial if a comparison beside it has it. Raises
    RunDirectoryError for a directory that is not a finished run, is damaged, or has no verdict,
    and for two directories of the same run.
    """
    by_time = sorted(
        ((read_verdict(directory), directory) for directory in run_dirs),
        key=lambda pair: (pair[0].started_at, pair[0].run_id),
    )
    _distinct(by_time)
    trials: dict[str, dict[str, Any]] = {}
    for folder in dict.fromkeys(directory.resolve().parent for directory in run_dirs):
        for plan in sorted(folder.glob(f"*/{PLAN}")):
            trials |= _trials_of(plan.parent)
    runs = []
    for verdict, directory in by_time:
        record = read_record(directory)
        if record.run_id != verdict.run_id:  # the tables' rows have the record's run_id
            raise RunDirectoryError(
                f"{directory}: verdict.json is of the run {verdict.run_id}, and the tables are of "
                f"{record.run_id}",
                hint=f"Judge it again: ackproof check {directory}",
            )
        trial = trials.get(verdict.run_id, {"comparison": None, "trial": None})
        kept = {"commit_id": commit or record.commit or None, **trial}
        own = _settings(directory) if settings else {}
        address = (addresses or {}).get(directory, "")
        runs.append(_judged(verdict, record, directory, own, kept, address=address))
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
    settings: Mapping[str, str],
    kept: Mapping[str, Any],
    *,
    address: str,
) -> JudgedRun:
    metrics = verdict.metrics
    page = (directory / REPORT).resolve()
    uri = f"{address}/{REPORT}" if address else page.as_uri()
    report = uri if page.exists() else None
    latency = metrics.ack_latency_ms
    observed = {word: verdict.observed.get(word, 0) for word in (*SENDS, *ANOMALY_COUNTS)}
    run = {
        "scenario": verdict.scenario,
        "configuration": configuration_name(
            verdict.configuration_name, verdict.configuration, record.overrides
        ),
        "configuration_id": digest(settings)[:12],
        "settings": settings,
        "seed": verdict.seed,
        "kafka_version": verdict.kafka_version,
        "image": verdict.image,
        "started_at": verdict.started_at,
        "finished_at": verdict.finished_at,
        "verdict": verdict.verdict.value,
        "reason": verdict.reason,
        "outcome": outcome(verdict).text,
        "run_folder": directory.resolve().name,
        "report": report,
        **{name: count for name, count in observed.items() if name != "unknown"},
        "unknown_outcome": observed["unknown"],
        "observed": verdict.observed,
        "duration_s": metrics.duration_s,
        "acked_per_s": metrics.acked_per_s,
        "unavailability_s": metrics.unavailability_s,
        "availability": None if metrics.times == "unknown" else metrics.availability,
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
            "observed_count": verdict.observed.get(anomaly, 0),
        }
        for anomaly, prediction in verdict.predicted.items()
    ]
    everything = (verdict.model_dump(mode="json"), record.troubles, run["configuration"], report)
    return JudgedRun(
        run_id=verdict.run_id,
        directory=address or str(directory.resolve()),
        run={**run, **kept},
        predictions=predictions,
        findings=[
            _renamed(finding.model_dump(), observed="observed_count")
            for finding in verdict.findings
        ],
        causes=[
            _renamed(cause.model_dump(), partition="partition_id", case="case_id", count="lost")
            | {"fault_number": None if cause.window is None else cause.window + 1}
            for cause in verdict.causes
        ],
        availability=_availability(verdict),
        troubles=record.troubles,
        digest=digest(everything),
    )


def _renamed(row: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}


def _availability(verdict: Verdict) -> list[dict[str, Any]]:
    probe = verdict.metrics.probe
    return [
        {
            "topic": part.topic,
            "partition_id": part.partition,
            "action": action,
            "available_share": share.share,
            "outages": share.outages,
            "longest_outage_s": share.longest_s,
        }
        for part in (probe.partitions if probe else ())
        for action, share in (("read", part.read), ("write", part.write))
    ]


def _settings(directory: Path) -> dict[str, str]:
    """Return every setting of the scenario by its path; {} if this version cannot read it."""
    try:
        scenario = loader.load_stored(directory).scenario
    except ScenarioError:
        return {}
    of_scopes: dict[str, Mapping[str, Any]] = {
        "producer": scenario.workload.settings.as_client_settings(),
        "broker": {"brokers": scenario.cluster.brokers, **scenario.cluster.settings},
    }
    for name, topic in scenario.topics.items():
        counts = {
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            MIN_INSYNC_REPLICAS: topic.min_insync_replicas,
        }
        of_scopes[f"topic.{name}"] = counts | topic.settings
    return {
        f"{scope}.{key}": setting_text(value)
        for scope, settings in of_scopes.items()
        for key, value in settings.items()
    }
