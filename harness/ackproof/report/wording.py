"""Sentences about one verdict, the same on the terminal, on the page and in CI."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC
from pathlib import Path

from ackproof.report import formatting as fmt
from ackproof.report.data.losses import LossGroup
from ackproof.report.data.run import SCENARIO_FILE
from ackproof.runs.verdict import (
    COUNTS,
    NOT_KAFKA,
    SENDS,
    UNKNOWN_VERSION,
    CauseReport,
    Expectation,
    FaultReport,
    Step,
    Verdict,
)
from ackproof_faults import fault_of


def name(verdict: Verdict) -> str:
    """Return the name of the configuration, or of the scenario if it has none."""
    return verdict.configuration_name or verdict.scenario


def names(verdicts: Sequence[Verdict]) -> str:
    """List the names of the configurations, each once."""
    return fmt.listing(dict.fromkeys(fmt.quoted(name(verdict)) for verdict in verdicts))


def acks_of(verdict: Verdict) -> str:
    """Return the configuration's `acks` if the comparison varied it, else an empty string."""
    return str(verdict.configuration.get("acks", ""))


def unmet(expectation: Expectation) -> str:
    """``loss: expected none, observed 3``."""
    return f"{expectation.what}: expected {expectation.wanted}, observed {expectation.said}"


def kafka(version: str) -> str:
    """Return ``Kafka 4.3.1``, or that a cluster is of another make, or nobody knows."""
    special = {NOT_KAFKA: NOT_KAFKA, UNKNOWN_VERSION: "Kafka's version unknown"}
    return special.get(version, f"Kafka {version}")


def facts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return scenarios, Kafka versions, seeds and start of these runs."""

    def listed(values: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    started = min(verdict.started_at for verdict in verdicts).astimezone(UTC)
    return [
        f"scenario {listed(verdict.scenario for verdict in verdicts)}",
        kafka(listed(verdict.kafka_version for verdict in verdicts)),
        f"seed {listed(str(verdict.seed) for verdict in verdicts)}",
        f"{started:%Y-%m-%d %H:%M} UTC",
    ]


def settings(verdict: Verdict) -> str:
    """Return the varied settings that the name of the configuration does not contain."""
    pairs = (f"{key}={_plain(value)}" for key, value in verdict.configuration.items())
    return ", ".join(pair for pair in pairs if pair not in name(verdict))


def _plain(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def anomalies(verdict: Verdict) -> list[str]:
    """Return the anomalies that the verdict predicts or counts."""
    keys = dict.fromkeys((*verdict.predicted, *verdict.observed))
    return [key for key in keys if key not in (*SENDS, *COUNTS)]


def told_and_folded(verdict: Verdict) -> tuple[list[str], list[str]]:
    """Return the anomalies to tell of, and those that did not occur and need not have.

    Told are those that occurred, that are certain, or whose prediction a finding contradicts.
    """
    found = {finding.anomaly for finding in verdict.findings}
    told = [
        anomaly
        for anomaly in anomalies(verdict)
        if verdict.observed.get(anomaly, 0)
        or verdict.predicted.get(anomaly) == "certain"
        or anomaly in found
    ]
    return told, [anomaly for anomaly in anomalies(verdict) if anomaly not in told]


def topic_sentences(verdict: Verdict) -> list[str]:
    """Return the counts of each topic, if there are several."""
    return [
        f"{topic}: " + ", ".join(f"{fmt.count(number)} {what}" for what, number in observed.items())
        for topic, observed in verdict.by_topic.items()
    ]


def finding_sentences(verdict: Verdict) -> list[str]:
    return [
        f"{finding.anomaly} is predicted {finding.predicted}, observed "
        f"{fmt.count(finding.observed)}: {finding.explanation}"
        for finding in verdict.findings
    ]


def unobserved_sentences(verdict: Verdict) -> list[str]:
    """Return what could not be observed, so that nothing is claimed about it."""
    return [f"Not observed: {line}" for line in verdict.unobserved]


def unchecked_sentences(verdict: Verdict) -> list[str]:
    """Return the partitions that were not compared with the model, with the reason."""
    return [f"Not compared with the model: {line}" for line in verdict.not_checked]


def cause_sentences(verdict: Verdict) -> list[str]:
    """Return each cause in words, with its case's number (see docs/explanation/forensics.md)."""
    return [f"{cause_title(cause)}: {cause.sentence}" for cause in verdict.causes]


def cause_title(cause: CauseReport) -> str:
    """Return what a case is called, with its number: `zombie leader (B3)`."""
    return cause.title if cause.case == "unexplained" else f"{cause.title} ({cause.case})"


def in_force(step: Step, windows: Sequence[FaultReport]) -> str:
    """Name the faults in force during a step."""
    names = {window.window: f"{fmt.fault(window.window)} {window.fault}" for window in windows}
    return ", ".join(names.get(number, fmt.fault(number)) for number in step.in_force) or "none"


def model_says(verdict: Verdict, step: Step, ability: str) -> str:
    """Return the model's word for a step (`readable` or `writable`), or that it has none."""
    words = {
        getattr(one, ability)
        for one in verdict.prediction.availability
        if (one.begun, one.healed) == (step.begun, step.healed)
    }
    if not words:
        return "no prediction"
    return f"predicted: {words.pop() if len(words) == 1 else 'either'}"


def fault(window: FaultReport) -> str:
    """``kill of broker 1``, ``pause_client of producer 0``."""
    return fault_of(window.fault, fmt.brokers(window.nodes), window.hit)


def fault_with_target(window: FaultReport) -> str:
    """``kill of leader of orders-0 (broker 1)``, ``pause_client of producer 0``."""
    nodes = f"{window.target} ({fmt.brokers(window.nodes)})"
    return fault_of(window.fault, nodes, window.hit)


def story(group: LossGroup, windows: Sequence[FaultReport]) -> str:
    """Describe lost records of one partition and fault, with the evidence of the first."""
    first = group.first
    partition = f"{first.topic}-{first.partition}"
    which = f"producer {first.producer} sequence {first.sequence}"
    during = next(
        (f" during {fault(window)}" for window in windows if window.window == first.window),
        "",
    )
    at_offset = "" if first.offset is None else "at that offset now: "
    found = f"; {at_offset}{first.found}" if first.found else ""
    if group.count == 1:
        return f"LOST {which} on {partition}, acked {_offsets(group)}{_times(group)}{during}{found}"
    return (
        f"LOST {fmt.count(group.count)} records of {partition}, acked {_offsets(group)}"
        f"{_times(group)}{during}; the first is {which}{found}"
    )


def _offsets(group: LossGroup) -> str:
    first, last = group.first_offset, group.last_offset
    if first is None:
        return "without an offset"
    return f"at offset {first}" if first == last else f"at offsets {first} to {last}"


def _times(group: LossGroup) -> str:
    first, last = fmt.clock(group.first_acked_at), fmt.clock(group.last_acked_at)
    if group.first_acked_at is None:
        return ""
    return f" at {first}" if first == last else f" between {first} and {last}"


def reproduce(directory: Path) -> list[tuple[str, str]]:
    """Return descriptions and commands that repeat a run or judge it again."""
    if directory.is_relative_to(Path.cwd()):
        directory = directory.relative_to(Path.cwd())
    here = shlex.quote(str(directory))
    scenario = shlex.quote(str(directory / SCENARIO_FILE))
    return [
        ("Run the same scenario with the same seed on new brokers", f"ackproof run {scenario}"),
        ("Run it again with every fault at the same number of acks", f"ackproof replay {here}"),
        ("Judge the stored run again, without a cluster", f"ackproof check {here}"),
    ]
