"""The sentences and numbers of a report, the same on the terminal and on the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Literal, Protocol

from ackproof.report.data.losses import LostRecord
from ackproof.report.data.run import SCENARIO_FILE
from ackproof.runs.verdict import SENDS, Verdict, Word

Agreement = Literal["agrees", "disagrees", "undecided"]


class FaultInForce(Protocol):
    """What a story tells of a fault: a report's window or a verdict's fault."""

    @property
    def window(self) -> int:
        """Its number within the run."""

    @property
    def fault(self) -> str:
        """Its name."""

    @property
    def nodes(self) -> Sequence[int]:
        """The brokers it struck."""


def count(number: int) -> str:
    """Return a whole number with thousands marked: `1,204`."""
    return f"{number:,}"


def share(part: int, whole: int) -> str:
    """Return `part` of `whole` in percent; never 0 % for something, nor 100 % for less than all."""
    if whole == 0:
        return "n/a"
    percent = 100 * part / whole
    if part and percent < 0.01:
        return "< 0.01 %"
    if part < whole and percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2f} %" if part else "0 %"


def number(value: float) -> str:
    """Return a measured value with about three digits: `0.42`, `4.1`, `127`, `12,300`."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}" if value < 1 else f"{value:.1f}"


def duration(milliseconds: float) -> str:
    """Return a stretch of time in the unit that suits it: `4.1 ms`, `8.1 s`."""
    if milliseconds >= 1000:
        return f"{number(milliseconds / 1000)} s"
    return f"{number(milliseconds)} ms"


def seconds(value: float) -> str:
    """Return seconds in the unit that suits them."""
    return duration(1000 * value)


def clock(moment: datetime | None) -> str:
    """Return a time of day, UTC, to the millisecond: `12:04:11.203`."""
    if moment is None:
        return "never"
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def brokers(nodes: Sequence[int]) -> str:
    """Return `broker 1`, or `brokers 1 and 3`."""
    if not nodes:
        return "no broker"
    return ("broker " if len(nodes) == 1 else "brokers ") + listing(map(str, nodes))


def brokers_set(nodes: Sequence[int]) -> str:
    """Return `{1, 3}`."""
    return "{" + ", ".join(map(str, sorted(nodes))) + "}"


def listing(items: Iterable[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    *head, last = items
    return f"{', '.join(head)} and {last}" if head else last


def name(verdict: Verdict) -> str:
    """Return what a verdict's configuration is called."""
    return verdict.configuration_name or verdict.scenario


def facts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return what these runs were: scenario, Kafka version, seed, when."""
    found = {
        "scenario": dict.fromkeys(verdict.scenario for verdict in verdicts),
        "Kafka": dict.fromkeys(verdict.kafka_version for verdict in verdicts),
        "seed": dict.fromkeys(str(verdict.seed) for verdict in verdicts),
    }
    started = min(verdict.started_at for verdict in verdicts).astimezone(UTC)
    return [f"{what} {', '.join(values)}" for what, values in found.items()] + [
        f"{started:%Y-%m-%d %H:%M} UTC"
    ]


def settings(verdict: Verdict) -> str:
    """Return the settings that a comparison varied and the configuration's name does not say."""
    pairs = (f"{key}={_plain(value)}" for key, value in verdict.configuration.items())
    return ", ".join(pair for pair in pairs if pair not in name(verdict))


def _plain(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def anomalies(verdict: Verdict) -> list[str]:
    """Return the anomalies that the verdict counts or predicts, in its order."""
    keys = dict.fromkeys((*verdict.predicted, *verdict.observed))
    return [key for key in keys if key not in SENDS]


def agreement(verdict: Verdict, anomaly: str) -> Agreement:
    """Return whether prediction and observation agree on one anomaly.

    The findings say where they disagree. Undecided: no prediction was made; or it was seen (or
    not) against the prediction, and yet that is no finding, because of doubts about the run; or
    nothing was seen, as predicted, in an inconclusive run, which might have missed it.
    """
    if any(finding.anomaly == anomaly for finding in verdict.findings):
        return "disagrees"
    outlook, seen = verdict.predicted.get(anomaly), verdict.observed.get(anomaly, 0) > 0
    conclusive = verdict.verdict is not Word.INCONCLUSIVE
    agrees = {
        "certain": seen,
        "possible": True,
        "impossible": not seen and conclusive,
    }
    return "agrees" if outlook and agrees[outlook] else "undecided"


def agreement_of(verdict: Verdict) -> Agreement:
    """Return whether prediction and observation agree on every anomaly."""
    found = {agreement(verdict, anomaly) for anomaly in verdict.predicted}
    if "disagrees" in found or verdict.findings:
        return "disagrees"
    return "undecided" if "undecided" in found or not found else "agrees"


def agreed(verdicts: Sequence[Verdict]) -> str:
    """Say where prediction and observation agree; nothing if nowhere."""
    agreeing = [verdict for verdict in verdicts if agreement_of(verdict) == "agrees"]
    if not agreeing:
        return ""
    if len(agreeing) == len(verdicts) > 1:
        what = "configurations" if len(set(map(name, verdicts))) == len(verdicts) else "runs"
        return f"Prediction and observation agree in all {len(verdicts)} {what}."
    return f"Prediction and observation agree in {_names(agreeing)}."


def agreement_sentences(verdicts: Sequence[Verdict]) -> list[str]:
    """Say whether prediction and observation agree, and where they do not, with the reason."""
    sentences = [agreed(verdicts)]
    for verdict in verdicts:
        for finding in finding_sentences(verdict):
            sentences.append(f"FINDING in {name(verdict)}: {finding}")
        if agreement_of(verdict) == "undecided":
            sentences.append(f"Undecided in {name(verdict)}: {undecided_because(verdict)}")
    return [sentence for sentence in sentences if sentence]


def topic_sentences(verdict: Verdict) -> list[str]:
    """Return what was observed of each topic, where several were written to."""
    return [
        f"{topic}: " + ", ".join(f"{count(number)} {what}" for what, number in observed.items())
        for topic, observed in verdict.by_topic.items()
    ]


def finding_sentences(verdict: Verdict) -> list[str]:
    """Say each finding in one sentence and its explanation."""
    return [
        f"{finding.anomaly} is predicted {finding.predicted}, observed {count(finding.observed)}: "
        f"{finding.explanation}"
        for finding in verdict.findings
    ]


def unchecked_sentences(verdict: Verdict) -> list[str]:
    """Say of which partitions nobody knows whether the model explains them, and why."""
    return [f"Not held against the model: {line}" for line in verdict.not_checked]


def cause_sentences(verdict: Verdict) -> list[str]:
    """Say why records were lost: the case and one sentence for each cause."""
    return [
        f"{cause.title}: {cause.sentence}"
        if cause.case == "unexplained"
        else f"{cause.case} {cause.title}: {cause.sentence}"
        for cause in verdict.causes
    ]


def undecided_because(verdict: Verdict) -> str:
    """Say why a run says nothing about its prediction."""
    if not verdict.predicted:
        return "no prediction was made"
    return verdict.reason


def _names(verdicts: Sequence[Verdict]) -> str:
    return listing(dict.fromkeys(map(_quoted, verdicts)))


def _quoted(verdict: Verdict) -> str:
    """Return a configuration's name for use in a sentence."""
    return f"'{name(verdict)}'" if "," in name(verdict) else name(verdict)


def answer(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a comparison's answer in words: what is lost, what it costs, how sure that is."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.verdict is not Word.INCONCLUSIVE:
            groups.setdefault(_quoted(verdict), []).append(verdict)
    sentences = []
    if groups:
        sentences.append(_loss_answer(groups))
        sentences.append(_duplicates_answer(groups))
        sentences.append(_price_answer(groups))
    left_out = [verdict for verdict in verdicts if verdict.verdict is Word.INCONCLUSIVE]
    if left_out:
        sentences.append(f"Nothing is claimed about {_names(left_out)}: inconclusive.")
    if groups:
        least = min(map(len, groups.values()))
        sentences.append(
            "One run of each configuration shows what can happen, not how often."
            if least == 1
            else f"With {least} runs of a configuration, records lost in one run are one event, "
            "not many."
        )
    return [sentence for sentence in sentences if sentence]


def _total(group: Sequence[Verdict], key: str) -> int:
    return sum(verdict.observed.get(key, 0) for verdict in group)


def _loss_answer(groups: dict[str, list[Verdict]]) -> str:
    lossy, clean = [], []
    for label, group in groups.items():
        lost, acked = _total(group, "lost"), _total(group, "acked")
        if not lost:
            clean.append(label)
            continue
        runs = sum(1 for verdict in group if verdict.observed.get("lost", 0))
        often = f", in {runs} of {len(group)} runs" if len(group) > 1 else ""
        lossy.append(
            f"{label} lost {count(lost)} of {count(acked)} acked records "
            f"({share(lost, acked)}{often})"
        )
    if not lossy:
        return "No configuration lost an acked record."
    kept = f" {listing(clean)} lost none." if clean else ""
    return f"{listing(lossy)}.{kept}"


def _duplicates_answer(groups: dict[str, list[Verdict]]) -> str:
    found = [
        f"{count(_total(group, 'duplicated'))} with {label}"
        for label, group in groups.items()
        if _total(group, "duplicated")
    ]
    return f"Records written more than once: {listing(found)}." if found else ""


def acks_of(verdict: Verdict) -> str:
    """Return the configuration's `acks` if the comparison varied it, else nothing."""
    return str(verdict.configuration.get("acks", ""))


def _price_answer(groups: dict[str, list[Verdict]]) -> str:
    if len(groups) < 2:
        return ""
    latency = {
        label: median(
            verdict.metrics.ack_latency_ms.p99
            for verdict in group
            if verdict.metrics.ack_latency_ms
        )
        for label, group in groups.items()
        if acks_of(group[0]) != "0" and any(verdict.metrics.ack_latency_ms for verdict in group)
    }
    away = {
        label: 1000 * median(verdict.metrics.unavailability_s for verdict in group)
        for label, group in groups.items()
    }
    price = f"The worst partition acked nothing for {_each(away)}."
    if len(latency) > 1:
        price += f" Ack latency at p99: {_each(latency)}."
    return price


def _each(milliseconds: dict[str, float]) -> str:
    return listing(f"{duration(value)} with {label}" for label, value in milliseconds.items())


def story(record: LostRecord, windows: Sequence[FaultInForce]) -> str:
    """Return one lost record as a proof that a stranger can check."""
    where = f"{record.topic}-{record.partition}"
    acked = (
        "acked without an offset" if record.offset is None else f"acked at offset {record.offset}"
    )
    when = f" at {clock(record.resolved_at)}" if record.resolved_at else ""
    during = ""
    for window in windows:
        if window.window == record.window:
            during = f" during {window.fault} of {brokers(window.nodes)}"
    found = ""
    if record.found:
        found = (
            f"; {record.found}"
            if record.offset is None
            else (f"; at that offset now: {record.found}")
        )
    return (
        f"LOST producer {record.producer} sequence {record.sequence} on {where}, "
        f"{acked}{when}{during}{found}"
    )


def reproduce(directory: Path) -> list[tuple[str, str]]:
    """Return the commands that run a run again and judge it again, each with what it does."""
    if directory.is_relative_to(Path.cwd()):
        directory = directory.relative_to(Path.cwd())
    here = shlex.quote(str(directory))
    scenario = shlex.quote(str(directory / SCENARIO_FILE))
    return [
        ("Run the same scenario with the same seed on new brokers", f"ackproof run {scenario}"),
        ("Run it again with every fault at the same acks", f"ackproof replay {here}"),
        ("Judge the stored run again, without a cluster", f"ackproof check {here}"),
    ]
