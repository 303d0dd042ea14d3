"""Runs as OpenMetrics text, for node_exporter's textfile collector or a push gateway.

All are gauges of the last run of each configuration: a file, unlike a process, counts nothing up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from ackproof.report import wording
from ackproof.runs.verdict import SENDS, Verdict

_RUN = ("scenario", "configuration", "kafka_version")

#: The value of `ackproof_as_expected`.
_EXPECTED = {"yes": 1, "no": 0, "undecided": float("nan")}


#: Fields of `Latency` by quantile.
_QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999", "1": "max"}

#: What a metric takes of a run: values, each with its labels beside those of the run.
_Values = Callable[[Verdict], Iterable[tuple[tuple[str, ...], float]]]


def write_metrics(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the metrics of these runs; a reader sees the whole file or the one before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(render(verdicts), encoding="utf-8")
    partial.replace(path)


def render(verdicts: Sequence[Verdict]) -> str:
    """Return the metrics; of several runs of one configuration those of the last."""
    latest = {_labels(verdict): verdict for verdict in verdicts}
    registry = CollectorRegistry()
    registry.register(_Runs(latest))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _labels(verdict: Verdict) -> tuple[str, ...]:
    return verdict.scenario, wording.name(verdict), verdict.kafka_version


class _Runs(Collector):
    def __init__(self, runs: Mapping[tuple[str, ...], Verdict]) -> None:
        self._runs = runs

    def collect(self) -> Iterable[Metric]:
        yield self._gauge(
            "ackproof_as_expected",
            "1 if the run met the scenario's expectations, 0 if not, NaN if it is inconclusive.",
            lambda verdict: [((), _EXPECTED[wording.AS_EXPECTED[verdict.verdict]])],
        )
        yield self._gauge(
            "ackproof_sends",
            "Sends by outcome.",
            lambda verdict: [
                ((key,), verdict.observed.get(key, 0)) for key in SENDS if key != "sent"
            ],
            "outcome",
        )
        yield self._gauge(
            "ackproof_anomalies",
            "Anomalies by name; lost are acked records that are not in the final log.",
            lambda verdict: [
                ((name,), verdict.observed.get(name, 0)) for name in wording.anomalies(verdict)
            ],
            "anomaly",
        )
        yield self._gauge(
            "ackproof_lost_by_cause",
            "Lost records by the case of docs/explanation/forensics.md.",
            lambda verdict: _by_case(verdict).items(),
            "case",
        )
        yield self._gauge(
            "ackproof_findings",
            "Contradictions of prediction and observation.",
            lambda verdict: [((), len(verdict.findings))],
        )
        yield self._gauge(
            "ackproof_unavailability_seconds",
            "Seconds in which the worst partition acked nothing.",
            lambda verdict: [((), verdict.metrics.unavailability_s)],
        )
        yield self._gauge(
            "ackproof_acked_per_second",
            "Acked sends a second.",
            lambda verdict: [((), verdict.metrics.acked_per_s)],
        )
        yield self._gauge(
            "ackproof_ack_latency_seconds",
            "Time from send to ack, by quantile; 1 is the longest.",
            _latencies,
            "quantile",
        )
        yield self._gauge(
            "ackproof_finished_timestamp_seconds",
            "When the run ended, in seconds since 1970.",
            lambda verdict: [
                ((), moment.timestamp()) for moment in (verdict.finished_at,) if moment is not None
            ],
        )

    def _gauge(
        self,
        name: str,
        documentation: str,
        values: _Values,
        *labels: str,
    ) -> Metric:
        family = GaugeMetricFamily(name, documentation, labels=[*_RUN, *labels])
        for run, verdict in self._runs.items():
            for own, value in values(verdict):
                family.add_metric([*run, *own], value)
        return family


def _by_case(verdict: Verdict) -> dict[tuple[str], int]:
    lost: dict[tuple[str], int] = {}
    for cause in verdict.causes:
        lost[cause.case,] = lost.get((cause.case,), 0) + cause.count
    return lost


def _latencies(verdict: Verdict) -> Iterator[tuple[tuple[str], float]]:
    latency = verdict.metrics.ack_latency_ms
    if latency is not None:
        for quantile, name in _QUANTILES.items():
            yield (quantile,), getattr(latency, name) / 1000
