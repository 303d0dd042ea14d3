"""Runs as OpenMetrics text, for node_exporter's textfile collector or a push gateway.

All metrics are gauges of the last run of each configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from ackproof.report import wording
from ackproof.runs.verdict import SENDS, Verdict
from ackproof.safe_files import replacing

_RUN = ("scenario", "configuration", "kafka_version")

_EXPECTED = {"yes": 1, "no": 0, "undecided": float("nan")}

#: Fields of `Latency` by quantile.
_QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999", "1": "max"}

#: The values of a run by the metric's own label (empty without a label).
_Values = Mapping[str, float]


def write_metrics(path: Path, verdicts: Sequence[Verdict]) -> None:
    with replacing(path) as partial:
        partial.write_text(render(verdicts), encoding="utf-8")


def render(verdicts: Sequence[Verdict]) -> str:
    """Return the metrics of the last run of each configuration."""
    latest = {
        (verdict.scenario, wording.name(verdict), verdict.kafka_version): verdict
        for verdict in verdicts
    }
    registry = CollectorRegistry()
    for name, label, description, values in _METRICS:
        labels = (*_RUN, label) if label else _RUN
        gauge = Gauge(f"ackproof_{name}", description, labels, registry=registry)
        for run, verdict in latest.items():
            for own, value in values(verdict).items():
                gauge.labels(*run, *([own] if label else [])).set(value)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _lost_by_cause(verdict: Verdict) -> _Values:
    lost = Counter[str]()
    for cause in verdict.causes:
        lost[cause.case] += cause.count
    return lost


def _latencies(verdict: Verdict) -> _Values:
    latency = verdict.metrics.ack_latency_ms
    if latency is None:
        return {}
    return {quantile: getattr(latency, name) / 1000 for quantile, name in _QUANTILES.items()}


def _counts(verdict: Verdict, names: Sequence[str]) -> _Values:
    return {name: verdict.observed.get(name, 0) for name in names}


#: Name, own label, description and values of each metric.
_METRICS: tuple[tuple[str, str, str, Callable[[Verdict], _Values]], ...] = (
    (
        "as_expected",
        "",
        "1 if the run met the scenario's expectations, 0 if not, NaN if it is inconclusive.",
        lambda verdict: {"": _EXPECTED[wording.AS_EXPECTED[verdict.verdict]]},
    ),
    (
        "sends",
        "outcome",
        "Sends by outcome.",
        lambda verdict: _counts(verdict, [name for name in SENDS if name != "sent"]),
    ),
    (
        "anomalies",
        "anomaly",
        "Anomalies by name; lost are acked records that are not in the final log.",
        lambda verdict: _counts(verdict, wording.anomalies(verdict)),
    ),
    (
        "lost_by_cause",
        "case",
        "Lost records by the case of docs/explanation/forensics.md.",
        _lost_by_cause,
    ),
    (
        "findings",
        "",
        "Contradictions of prediction and observation.",
        lambda verdict: {"": len(verdict.findings)},
    ),
    (
        "unavailability_seconds",
        "",
        "Seconds in which the worst partition acked nothing.",
        lambda verdict: {"": verdict.metrics.unavailability_s},
    ),
    (
        "acked_per_second",
        "",
        "Acked sends a second.",
        lambda verdict: {"": verdict.metrics.acked_per_s},
    ),
    (
        "ack_latency_seconds",
        "quantile",
        "Time from send to ack, by quantile; 1 is the longest.",
        _latencies,
    ),
    (
        "finished_timestamp_seconds",
        "",
        "When the run ended, in seconds since 1970.",
        lambda verdict: {"": verdict.finished_at.timestamp()} if verdict.finished_at else {},
    ),
)
