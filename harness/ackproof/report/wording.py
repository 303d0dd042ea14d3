"""Sentences about one verdict, the same on the terminal, on the page and in CI.

They say whether acked records were lost. The verdict's own word (`holds`, `violated`,
`inconclusive`) compares the observation with `expect`; it is used in JSON and for exit codes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Literal

from ackproof.report import formatting as fmt
from ackproof.runs.overview import LossGroup, Overview
from ackproof.runs.verdict import (
    COUNTS,
    NOT_KAFKA,
    REMOVED,
    SENDS,
    UNKNOWN_VERSION,
    CauseReport,
    Expectation,
    FaultReport,
    Step,
    Verdict,
    Word,
)
from ackproof.scenario.types import setting_text
from ackproof_faults import fault_of

#: Selects a colour: whether acked records were lost, regardless of `expect`.
Tone = Literal["kept", "lost", "unclear"]

#: Whether the run met the scenario's `expect`.
AS_EXPECTED = {Word.HOLDS: "yes", Word.VIOLATED: "no", Word.INCONCLUSIVE: "undecided"}

Agreement = Literal["yes", "no", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`text` is a sentence without a full stop, `brief` its first words, for tables."""

    tone: Tone
    brief: str
    text: str
    as_expected: str


def outcome(verdict: Verdict) -> Outcome:
    """Return whether acked records were lost, and the other expectations that were not met."""
    tone, brief, of_all = _records(verdict)
    text = f"{brief}{of_all}"
    loss = next((line for line in verdict.expectations if line.what == "loss"), None)
    if verdict.verdict is Word.INCONCLUSIVE:
        text = f"undecided: {text}"
    elif loss is not None:
        text += _compared(loss, lost=tone == "lost")
    if removed := verdict.observed.get(REMOVED, 0):
        text += f"; retention or compaction removed {fmt.count(removed)}"
    others = [line for line in verdict.expectations if not line.met and line is not loss]
    if verdict.verdict is Word.VIOLATED and others:
        text += f"; not as expected: {fmt.listing(map(unmet, others))}"
    return Outcome(tone=tone, brief=brief, text=text, as_expected=AS_EXPECTED[verdict.verdict])


def sentence(verdict: Verdict) -> str:
    """Return the outcome with a capital letter, as a heading."""
    return _capitalized(outcome(verdict).text)


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _records(verdict: Verdict) -> tuple[Tone, str, str]:
    """Return the tone, the brief sentence, and its end with the number of acked records."""
    lost, acked = (verdict.observed.get(key, 0) for key in ("lost", "acked"))
    of_all = f" of {_acked(acked)}"
    if lost:
        undecided = verdict.verdict is Word.INCONCLUSIVE
        brief = f"{fmt.count(lost)} not found" if undecided else f"lost {fmt.count(lost)}"
        return "lost", brief, of_all
    if not acked:
        return "unclear", "acked no record", ""
    if unseen := verdict.observed.get("unseen", 0):
        return "unclear", f"{fmt.count(unseen)} not found", f"{of_all}, which may be lost"
    if not _complete(verdict):
        return "unclear", "found no loss", f" among {_acked(acked)}"
    if verdict.observed.get(REMOVED, 0):
        return "kept", "lost none", of_all
    return "kept", "kept all", f" {_acked(acked)}"


def _acked(number: int) -> str:
    return fmt.plural(number, "acked record")


def _complete(verdict: Verdict) -> bool:
    """Return whether the run would have shown a loss.

    A violated `none` ends the judgement before it checks whether the run is conclusive.
    """
    if verdict.verdict is Word.INCONCLUSIVE or verdict.observed.get("unseen", 0):
        return False
    return not any(not line.met and line.wanted == "none" for line in verdict.expectations)


def _compared(loss: Expectation, *, lost: bool) -> str:
    match loss.wanted, lost:
        case "none", True:
            return ", none expected"
        case "some", True:
            return ", as expected"
        case "any", True:
            return ", which the scenario allows"
        case "some", False:
            return ", although a loss was expected"
    return ""


def names(verdicts: Sequence[Verdict]) -> str:
    return fmt.listing(dict.fromkeys(fmt.quoted(verdict.name) for verdict in verdicts))


def unmet(expectation: Expectation) -> str:
    """``loss: expected none, observed 3``."""
    return f"{expectation.what}: expected {expectation.wanted}, observed {expectation.text}"


def met(verdict: Verdict, expectation: Expectation) -> str:
    """Return whether an expectation is met; an absence is only known of a conclusive run."""
    if not expectation.met:
        return "not met"
    absence = verdict.verdict is Word.INCONCLUSIVE and expectation.wanted == "none"
    return "not known" if absence else "met"


def kafka(version: str) -> str:
    """Return ``Kafka 4.3.1``, or text for an unknown version or a cluster that is not Kafka."""
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
        fmt.seeds({verdict.seed for verdict in verdicts}),
        f"{started:%Y-%m-%d %H:%M} UTC",
    ]


def settings(verdict: Verdict) -> str:
    """Return the varied settings that the name of the configuration does not contain."""
    pairs = (f"{key}={setting_text(value)}" for key, value in verdict.configuration.items())
    return ", ".join(pair for pair in pairs if pair not in verdict.name)


def anomalies(verdict: Verdict) -> list[str]:
    keys = dict.fromkeys((*verdict.predicted, *verdict.observed))
    return [key for key in keys if key in verdict.predicted or key not in (*SENDS, *COUNTS)]


def shown_and_folded(verdict: Verdict) -> tuple[list[str], list[str]]:
    """Return the anomalies that occurred, were certain or have a finding; and the others."""
    contradicted = {finding.anomaly for finding in verdict.findings}
    shown = [
        anomaly
        for anomaly in anomalies(verdict)
        if verdict.observed.get(anomaly, 0)
        or verdict.predicted.get(anomaly) == "certain"
        or anomaly in contradicted
    ]
    return shown, [anomaly for anomaly in anomalies(verdict) if anomaly not in shown]


def topic_sentences(verdict: Verdict) -> list[str]:
    """Return the counts of each topic, if there are several."""
    return [
        f"{topic}: " + ", ".join(f"{fmt.count(number)} {what}" for what, number in observed.items())
        for topic, observed in verdict.by_topic.items()
    ]


def probe_sentences(verdict: Verdict) -> list[str]:
    """Return the outcomes of the probe's writes, which `Verdict.sends` leaves out."""
    writes = [f"{fmt.count(count)} {what}" for what, count in verdict.probed.items() if count]
    return [f"Besides, writes of the probe: {', '.join(writes)}."] if writes else []


def finding_sentences(verdict: Verdict) -> list[str]:
    return [
        f"{finding.anomaly} is predicted {finding.predicted}, observed "
        f"{fmt.count(finding.observed)}: {finding.explanation}"
        for finding in verdict.findings
    ]


def ended_sentences(verdict: Verdict) -> list[str]:
    """Return the nodes that ended by themselves; an inconclusive run has them in its reason."""
    if verdict.verdict is Word.INCONCLUSIVE:
        return []
    return [
        f"{_capitalized(str(node))}. The prediction does not include this end."
        for node in verdict.ended
    ]


def stopped_sentences(verdict: Verdict) -> list[str]:
    """Return a sentence for each fatal error, with the producers that it ended."""
    producers: dict[str, list[int]] = {}
    for stopped in verdict.stopped:
        producers.setdefault(stopped.error, []).append(stopped.producer)
    return [
        f"OUTAGE: producer {fmt.listing(map(str, of))} stopped for good: {error}. "
        "After this fatal error the client allows no further sends."
        for error, of in producers.items()
    ]


#: Without an ack, the time until the client wrote to its socket is no latency.
ACKS_0 = "acks=0 waits for no ack"


def unavailable(verdict: Verdict) -> str:
    """Return for how long the worst partition had no acks, as far as it was measured."""
    if verdict.metrics.times == "unknown":
        return "not measured"
    limit = "≤ " if verdict.metrics.times == "at most" else ""
    return limit + fmt.seconds(verdict.metrics.unavailability_s)


def latencies(verdict: Verdict) -> dict[str, str]:
    """Return p50 and p99 of the ack latency, or their upper bounds; empty if neither is known."""
    metrics = verdict.metrics
    latency, limit = metrics.ack_latency_ms, ""
    if latency is None:
        latency, limit = metrics.ack_latency_at_most_ms, "≤ "
    if latency is None:
        return {}
    return {name: limit + fmt.duration(getattr(latency, name)) for name in ("p50", "p99")}


def no_latency(verdict: Verdict) -> str:
    """Return why an ack latency is not reported."""
    if not verdict.observed.get("acked"):
        return "nothing acked"
    return ACKS_0 if str(verdict.configuration.get("acks")) == "0" else "not claimed"


def unobserved_sentences(verdict: Verdict) -> list[str]:
    return [f"Not observed: {line}" for line in verdict.unobserved]


def unchecked_sentences(verdict: Verdict) -> list[str]:
    return [f"Not compared with the model: {line}" for line in verdict.not_checked]


def cause_sentences(verdict: Verdict) -> list[str]:
    causes = [f"{cause_title(cause)}: {cause.sentence}" for cause in verdict.causes]
    return causes + verdict.reported_errors


def cause_title(cause: CauseReport) -> str:
    """``zombie leader (B3)``; docs/explanation/forensics.md has the numbers."""
    return f"{cause.title} ({cause.case})" if cause.case.startswith("B") else cause.title


def in_force(step: Step, windows: Sequence[FaultReport]) -> str:
    names = {window.window: f"{fmt.fault(window.window)} {window.fault}" for window in windows}
    return ", ".join(names.get(number, fmt.fault(number)) for number in step.in_force) or "none"


def model_says(verdict: Verdict, step: Step, ability: str) -> str:
    """Return the prediction for a step; `ability` is `readable` or `writable`."""
    words = {
        getattr(part, ability)
        for part in verdict.prediction.availability
        if (part.begun, part.healed) == (step.begun, step.healed)
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
    which = first.identity or f"producer {first.producer} sequence {first.sequence}"
    during = next(
        (f" during {fault(window)}" for window in windows if window.window == first.window),
        "",
    )
    at_offset = "" if first.offset is None else "at that offset now: "
    evidence = f"; {at_offset}{first.found}" if first.found else ""
    if group.count == 1:
        return (
            f"LOST {which} on {partition}, acked {_offsets(group)}{_times(group)}{during}{evidence}"
        )
    return (
        f"LOST {fmt.count(group.count)} records of {partition}, acked {_offsets(group)}"
        f"{_times(group)}{during}; the first is {which}{evidence}"
    )


def acked_lines_sentence(overview: Overview) -> str:
    """Return where the lines of an application's acked logs are; '' without any."""
    files = ", ".join(f"{fmt.count(n)} in {name}" for name, n in overview.acked_lines.items())
    return f"Lines of the acked logs, in the run directory: {files}" if files else ""


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
    scenario = shlex.quote(str(directory / "scenario.yaml"))
    return [
        ("Run the same scenario with the same seed on new brokers", f"ackproof run {scenario}"),
        ("Run it again with every fault at the same number of acks", f"ackproof replay {here}"),
        ("Judge the stored run again, without a cluster", f"ackproof check {here}"),
    ]


def agreement(verdict: Verdict, anomaly: str) -> Agreement:
    """Return whether the observation of one anomaly matches the prediction.

    `no`: there is a finding. `undecided`: there is no prediction, the cluster is not modelled, or
    the run is inconclusive and cannot confirm the prediction.
    """
    if any(finding.anomaly == anomaly for finding in verdict.findings):
        return "no"
    prediction, occurred = verdict.predicted.get(anomaly), verdict.observed.get(anomaly, 0) > 0
    conclusive = verdict.verdict is not Word.INCONCLUSIVE
    agrees: dict[str | None, bool] = {
        "certain": occurred,
        "possible": True,
        "impossible": not occurred and conclusive,
    }
    return "yes" if agrees.get(prediction) else "undecided"


def agreement_of(verdict: Verdict) -> Agreement:
    """Return whether the observation matches the prediction for every anomaly."""
    all_of = {agreement(verdict, anomaly) for anomaly in verdict.predicted}
    if "no" in all_of or verdict.findings:
        return "no"
    return "undecided" if "undecided" in all_of or not all_of else "yes"


def agreed(verdicts: Sequence[Verdict]) -> str:
    """Return a sentence on the configurations that match the prediction, or an empty string."""
    agreeing = [verdict for verdict in verdicts if agreement_of(verdict) == "yes"]
    if not agreeing:
        return ""
    if len(agreeing) == len(verdicts) > 1:
        what = (
            "configurations"
            if len({verdict.name for verdict in verdicts}) == len(verdicts)
            else "runs"
        )
        return f"Matches prediction: yes, in all {len(verdicts)} {what}."
    return f"Matches prediction: yes, in {names(agreeing)}."


def agreement_sentences(verdicts: Sequence[Verdict]) -> list[tuple[str, bool]]:
    """Return sentences on agreement, on findings, and on undecided runs with the reason.

    The second of each pair says whether it is a finding.
    """
    sentences = [(agreed(verdicts), False)]
    for verdict in verdicts:
        for finding in finding_sentences(verdict):
            sentences.append((f"FINDING in {verdict.name}: {finding}", True))
        if agreement_of(verdict) == "undecided":
            reason = verdict.reason.partition("\n")[0]  # the rest is what to do
            reason = reason if verdict.predicted else "no prediction was made"
            sentences.append((f"Undecided in {verdict.name}: {reason}", False))
    return [pair for pair in sentences if pair[0]]
