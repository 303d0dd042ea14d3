"""Runs as OpenMetrics text, for node_exporter's textfile collector or a push gateway.

All metrics are gauges of the last run of each configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from ackproof.report import wording
from ackproof.runs.directory import read_record
from ackproof.runs.verdict import SENDS, Verdict
from ackproof.safe_files import replacing
from ackproof_spark.warehouse.configuration import configuration_name

_RUN = ("scenario", "configuration", "kafka_version")

_METRICS = {
    "as_expected": (
        "1 if the run met the scenario's expectations, 0 if not, NaN if it is inconclusive."
    ),
    "sends": "Sends by outcome.",
    "anomalies": "Anomalies by name; lost are acked records that are not in the final log.",
    "lost_by_cause": "Lost records by the case of docs/explanation/forensics.md.",
    "findings": "Contradictions of prediction and observation.",
    "unavailability_seconds": "Seconds in which the worst partition acked nothing.",
    "acked_per_second": "Acked sends a second.",
    "ack_latency_seconds": "Time from send to ack, by quantile; 1 is the longest.",
    "finished_timestamp_seconds": "When the run ended, in seconds since 1970.",
}

#: Labels of metrics with several values for a run.
_LABELS = {
    "sends": "outcome",
    "anomalies": "anomaly",
    "lost_by_cause": "case",
    "ack_latency_seconds": "quantile",
}

_EXPECTED = {"yes": 1, "no": 0, "undecided": float("nan")}

#: Fields of `Latency` by quantile.
_QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999", "1": "max"}


def write_metrics(path: Path, runs: Sequence[tuple[Path, Verdict]]) -> None:
    """Write the metrics of run directories. Raises RunDirectoryError for one without `run.json`."""
    with replacing(path) as partial:
        partial.write_text(render(runs), encoding="utf-8")


def render(runs: Sequence[tuple[Path, Verdict]]) -> str:
    """Return the metrics of the last run of each configuration, which the warehouse names alike."""
    latest = {
        (
            verdict.scenario,
            configuration_name(
                verdict.configuration_name, verdict.configuration, read_record(run_dir).overrides
            ),
            verdict.kafka_version,
        ): verdict
        for run_dir, verdict in runs
    }
    registry = CollectorRegistry()
    for name, description in _METRICS.items():
        labels = (*_RUN, _LABELS[name]) if name in _LABELS else _RUN
        gauge = Gauge(f"ackproof_{name}", description, labels, registry=registry)
        for run, verdict in latest.items():
            value = _values(verdict)[name]
            if isinstance(value, Mapping):
                for own, number in value.items():
                    gauge.labels(*run, own).set(number)
            elif value is not None:
                gauge.labels(*run).set(value)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


#: What a watch counts in each partition, as gauges of now.
_WATCH = {
    "acked": "Acked sends that were compared, or wait for it.",
    "unseen": "Acked sends that were not read yet.",
    "late": "Acked sends that could not be read in time, and still cannot.",
    "lost": "Acked sends that are not in the log any more.",
    "doubled": "Further copies of records.",
    "reordered": "Records behind later ones of their producer.",
    "undecided": "Acked sends of which the watch cannot tell.",
}


def write_watch(path: Path, partitions: Mapping[tuple[str, int], Mapping[str, float]]) -> None:
    """Write the counts of a watch, by topic and partition."""
    registry = CollectorRegistry()
    for name, description in _WATCH.items():
        labels = ("topic", "partition")
        gauge = Gauge(f"ackproof_watch_{name}", description, labels, registry=registry)
        for (topic, number), row in partitions.items():
            gauge.labels(topic, number).set(row[name])
    with replacing(path) as partial:
        partial.write_bytes(generate_latest(registry))  # type: ignore[no-untyped-call]


def _values(verdict: Verdict) -> Mapping[str, float | Mapping[str, float] | None]:
    metrics, latency = verdict.metrics, verdict.metrics.ack_latency_ms
    lost = Counter[str]()
    for cause in verdict.causes:
        lost[cause.case] += cause.count
    return {
        "as_expected": _EXPECTED[wording.AS_EXPECTED[verdict.verdict]],
        "sends": _counts(verdict, [name for name in SENDS if name != "sent"]),
        "anomalies": _counts(verdict, wording.anomalies(verdict)),
        "lost_by_cause": lost,
        "findings": len(verdict.findings),
        "unavailability_seconds": (
            metrics.unavailability_s if metrics.times == "measured" else None
        ),
        "acked_per_second": metrics.acked_per_s,
        "ack_latency_seconds": {
            quantile: getattr(latency, name) / 1000
            for quantile, name in _QUANTILES.items()
            if latency
        },
        "finished_timestamp_seconds": verdict.finished_at.timestamp()
        if verdict.finished_at
        else None,
    }


def _counts(verdict: Verdict, names: Sequence[str]) -> Mapping[str, float]:
    return {name: verdict.observed.get(name, 0) for name in names}
