"""The answer of a comparison with one run (or a few) of each configuration, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.verdict import Verdict, Word


def answer(verdicts: Sequence[Verdict]) -> list[str]:
    """Return sentences on losses, duplicates, cost, and how certain they are."""
    groups = conclusive(verdicts)
    sentences = []
    if groups:
        sentences.append(_loss_answer(groups))
        sentences.append(_duplicates_answer(groups))
        sentences.append(_cost_answer(groups))
    inconclusive = [verdict for verdict in verdicts if verdict.verdict is Word.INCONCLUSIVE]
    if inconclusive:
        sentences.append(f"Nothing is claimed about {wording.names(inconclusive)}: inconclusive.")
    if groups:
        least = min(map(len, groups.values()))
        sentences.append(
            "One run of each configuration shows what can happen, not how often."
            if least == 1
            else f"With {least} runs of each configuration: records lost in one run are one event, "
            "not many."
        )
    return [sentence for sentence in sentences if sentence]


def conclusive(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return the conclusive runs of each configuration, by its quoted name."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.verdict is not Word.INCONCLUSIVE:
            groups.setdefault(fmt.quoted(wording.name(verdict)), []).append(verdict)
    return groups


def unavailable_ms(group: Sequence[Verdict]) -> float:
    """Return the median time without an ack in the worst partition."""
    return 1000 * median(verdict.metrics.unavailability_s for verdict in group)


def p99_ms(group: Sequence[Verdict]) -> float | None:
    """Return the median ack latency at p99; None if none is claimed, or if no broker acks."""
    known = [
        verdict.metrics.ack_latency_ms.p99 for verdict in group if verdict.metrics.ack_latency_ms
    ]
    return median(known) if known and wording.acks_of(group[0]) != "0" else None


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
            f"{label} lost {fmt.count(lost)} of {fmt.count(acked)} acked records "
            f"({fmt.share(lost, acked)}{often})"
        )
    if not lossy:
        return "No configuration lost an acked record."
    kept = f" {fmt.listing(clean)} lost none." if clean else ""
    return f"{fmt.listing(lossy)}.{kept}"


def _duplicates_answer(groups: dict[str, list[Verdict]]) -> str:
    found = [
        f"{fmt.count(_total(group, 'duplicated'))} with {label}"
        for label, group in groups.items()
        if _total(group, "duplicated")
    ]
    return f"Records written more than once: {fmt.listing(found)}." if found else ""


def _cost_answer(groups: dict[str, list[Verdict]]) -> str:
    if len(groups) < 2:
        return ""
    latency = {
        label: value for label, group in groups.items() if (value := p99_ms(group)) is not None
    }
    down = {label: unavailable_ms(group) for label, group in groups.items()}
    cost = f"The worst partition acked nothing for {_each(down)}."
    if len(latency) > 1:
        cost += f" Ack latency at p99: {_each(latency)}."
    return cost


def _each(milliseconds: dict[str, float]) -> str:
    return fmt.listing(
        f"{fmt.duration(value)} with {label}" for label, value in milliseconds.items()
    )
