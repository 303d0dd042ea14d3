"""The result of a comparison in sentences: of single runs, and of many trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ackproof.comparison.summary import Cell, Pair, Summary
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.formatting import percent
from ackproof.runs.verdict import Verdict, Word

#: Maximum number of runs that the page shows in full.
SHOWN_RUNS = 8


def shown_runs(summary: Summary, results: Sequence[tuple[Path, Verdict]]) -> list[Path]:
    """Return the runs to show in full.

    All runs of a single round; of several rounds the run of each configuration with most losses.
    """
    if summary.plan.trials == 1:
        return [run_dir for run_dir, _ in results]
    examples: dict[str, tuple[Path, Verdict]] = {}
    for run_dir, verdict in results:
        label = f"{verdict.scenario}/{verdict.configuration_name}"
        best = examples.get(label)
        if best is None or _lost(verdict) > _lost(best[1]):
            examples[label] = (run_dir, verdict)
    return [run_dir for run_dir, _ in list(examples.values())[:SHOWN_RUNS]]


def _lost(verdict: Verdict) -> int:
    return verdict.observed.get("lost", 0)


#: Maximum number of unsettled pairs with a sentence of their own; the table has all pairs.
_SHOWN_PAIRS = 3


def answer(summary: Summary) -> list[str]:
    sentences = [*_losses(summary), *_costs(summary), *_settled(summary)]
    for cell in summary.cells:
        if cell.failed:
            sentences.append(
                f"{cell.configuration} could not be run "
                f"{'once' if cell.failed == 1 else f'{cell.failed} times'}: {cell.error}."
            )
        if cell.inconclusive:
            sentences.append(
                f"{fmt.plural(cell.inconclusive, 'inconclusive trial')} of "
                f"{cell.configuration} {'does' if cell.inconclusive == 1 else 'do'} not count."
            )
    sentences.append(_ended(summary))
    return sentences


def _losses(summary: Summary) -> list[str]:
    sentences = []
    for cell in summary.cells:
        if not cell.trials:
            continue
        if not cell.losing:
            often = f"fewer than 1 in {max(1, math.floor(1 / cell.lost_share_high))}"
            if cell.lost_share_high > 0.5:
                often = f"up to {percent(cell.lost_share_high)}"
            result = (
                f"lost nothing in {fmt.plural(cell.trials, 'trial')}, so {often} such trials lose"
            )
        else:
            low, high = percent(cell.lost_share_low), percent(cell.lost_share_high)
            typical = cell.lost_per_incident
            each = f", {fmt.count(round(typical.median))} records each time" if typical else ""
            result = (
                f"lost in {cell.losing} of {fmt.plural(cell.trials, 'trial')}{each}, so "
                f"{low} to {high} of such trials lose"
            )
        sentences.append(f"{fmt.quoted(cell.configuration)} {result}.")
    if sentences:
        confidence = percent(summary.plan.confidence)
        sentences[0] = f"With {confidence} confidence in each interval: {sentences[0]}"
    return sentences


_UNITS = {
    "unavailability_s": ("unavailability", 1000.0),
    "recovery_s": ("recovery after the heal", 1000.0),
    "ack_latency_p50_ms": ("ack latency p50", 1.0),
    "ack_latency_p99_ms": ("ack latency p99", 1.0),
}


def _costs(summary: Summary) -> list[str]:
    """Return sentences on significant differences of availability, latency and throughput."""
    sentences = []
    for pair in summary.pairs:
        costs = [
            cost(shift.measure, shift.shift, summary.cell(pair.a))
            for shift in pair.shifts
            if shift.p_value <= summary.alpha
        ]
        if costs:
            sentences.append(f"{pair.b} against {pair.a}: {fmt.listing(costs)}.")
    return sentences


def cost(measure: str, shift: float, against: Cell) -> str:
    """Format the difference of a measure: `unavailability +1.2 s`."""
    sign = "+" if shift > 0 else "\N{MINUS SIGN}"
    if measure == "acked_per_s":
        before = against.acked_per_s
        share = abs(shift) / before.median if before and before.median else 0.0
        return f"throughput {sign}{percent(share)}"
    name, factor = _UNITS[measure]
    return f"{name} {sign}{fmt.duration(abs(shift) * factor)}"


def _settled(summary: Summary) -> list[str]:
    worse: dict[str, list[str]] = {}
    for pair in summary.pairs:
        if pair.settled == "different":
            more, less = by_loss(pair, summary)
            worse.setdefault(more, []).append(less)
    sentences = [
        f"{more} loses more often than {fmt.listing(map(fmt.quoted, less))}."
        for more, less in worse.items()
    ]
    sentences += [pair_sentence(pair, summary) for pair in summary.pairs if pair.settled == "alike"]
    undecided = [pair for pair in summary.pairs if not pair.settled]
    if len(undecided) <= _SHOWN_PAIRS:
        return sentences + [pair_sentence(pair, summary) for pair in undecided]
    needed = [pair.more_trials for pair in undecided if pair.more_trials is not None]
    most = f"about {fmt.count(max(needed))} more trials of each" if needed else "no number"
    return [
        *sentences,
        f"{len(undecided)} of {len(summary.pairs)} pairs are not settled; {most} would settle all.",
    ]


def by_loss(pair: Pair, summary: Summary) -> tuple[str, str]:
    """Return the names of a pair; the configuration that loses more often is first."""
    a, b = summary.cell(pair.a), summary.cell(pair.b)
    return (pair.a, pair.b) if a.losing * b.trials > b.losing * a.trials else (pair.b, pair.a)


def pair_sentence(pair: Pair, summary: Summary) -> str:
    """Return which of a pair loses more often, or how many more trials would settle it."""
    if pair.settled == "different":
        more, less = by_loss(pair, summary)
        return f"{more} loses more often than {less} (p = {pair.p_value:.2g}, corrected)."
    if pair.settled == "alike":
        return (
            f"{pair.a} and {pair.b} lose alike: their loss probabilities differ by less than "
            f"{percent(summary.plan.margin)}."
        )
    if pair.more_trials is None:
        return (
            f"Whether {pair.a} and {pair.b} differ is not settled, and no reasonable number of "
            "trials would settle it."
        )
    return (
        f"Whether {pair.a} and {pair.b} differ is not settled: about "
        f"{fmt.plural(pair.more_trials, 'more trial')} of each would settle it."
    )


def _ended(summary: Summary) -> str:
    why = {
        "settled": "every pair was settled",
        "trials": "the planned trials were done",
        "budget": "the time budget was used up",
        "interrupted": "the comparison was interrupted, so no result is final",
    }[summary.ended]
    return f"Ended after {fmt.plural(summary.rounds, 'round')}: {why}."


def recommendations(summary: Summary) -> list[tuple[Cell, str]]:
    """Return each configuration with a recommendation, the safest first.

    A configuration is dominated if another, under the same faults, is no worse in loss,
    unavailability and ack latency p99, and better in one of them.
    """
    scored = [cell for cell in summary.cells if cell.trials and cell.unavailability_s]
    ordered = sorted(
        scored, key=lambda cell: (loss_rate(cell), cell.lost_share_high, unavailable_s(cell))
    )
    return [(cell, _advice(cell, dominators(cell, summary), summary)) for cell in ordered]


def _advice(cell: Cell, better: Sequence[Cell], summary: Summary) -> str:
    if better:
        return f"not recommended: {better[0].configuration} was at least as good in every measure"
    if cell.losing:
        return "where these losses are acceptable for lower latency or higher availability"
    if cell.lost_share_high > summary.plan.margin:
        return (
            "perhaps, where acked records must survive these faults: it lost none, but "
            f"{fmt.plural(cell.trials, 'trial')} cannot rule out that "
            f"{percent(cell.lost_share_high)} lose"
        )
    return "where acked records must survive these faults"


def dominators(cell: Cell, summary: Summary) -> list[Cell]:
    faults = summary.plan.faults
    return [
        other
        for other in summary.cells
        if other.trials
        and faults.get(other.configuration) == faults.get(cell.configuration)
        and _dominates(other, cell)
    ]


def _dominates(a: Cell, b: Cell) -> bool:
    ours, theirs = ((loss_rate(cell), unavailable_s(cell), p99_ms(cell)) for cell in (a, b))
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


def loss_rate(cell: Cell) -> float:
    """Return the share of trials that lost; 1 without trials."""
    return cell.losing / cell.trials if cell.trials else 1.0


def unavailable_s(cell: Cell) -> float:
    return cell.unavailability_s.median if cell.unavailability_s else math.inf


def p99_ms(cell: Cell) -> float:
    return cell.ack_latency_ms["p99"].median if "p99" in cell.ack_latency_ms else math.inf


def answer_of_runs(verdicts: Sequence[Verdict]) -> list[str]:
    groups = conclusive(verdicts)
    sentences = []
    if groups:
        sentences.append(_losses_of_runs(groups))
        sentences.append(_duplicates_of_runs(groups))
        sentences.append(_costs_of_runs(groups))
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


def unavailable_of_runs(group: Sequence[Verdict]) -> float:
    """Return the median time without an ack in the worst partition, in milliseconds."""
    return 1000 * median(verdict.metrics.unavailability_s for verdict in group)


def p99_of_runs(group: Sequence[Verdict]) -> float | None:
    """Return the median ack latency at p99; None if it is unknown or with acks=0."""
    known = [
        verdict.metrics.ack_latency_ms.p99 for verdict in group if verdict.metrics.ack_latency_ms
    ]
    return median(known) if known and wording.acks_of(group[0]) != "0" else None


def _total(group: Sequence[Verdict], key: str) -> int:
    return sum(verdict.observed.get(key, 0) for verdict in group)


def _losses_of_runs(groups: dict[str, list[Verdict]]) -> str:
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


def _duplicates_of_runs(groups: dict[str, list[Verdict]]) -> str:
    duplicated = [
        f"{fmt.count(_total(group, 'duplicated'))} with {label}"
        for label, group in groups.items()
        if _total(group, "duplicated")
    ]
    return f"Records written more than once: {fmt.listing(duplicated)}." if duplicated else ""


def _costs_of_runs(groups: dict[str, list[Verdict]]) -> str:
    if len(groups) < 2:
        return ""
    latency = {
        label: value for label, group in groups.items() if (value := p99_of_runs(group)) is not None
    }
    down = {label: unavailable_of_runs(group) for label, group in groups.items()}
    cost = f"The worst partition acked nothing for {_each(down)}."
    if len(latency) > 1:
        cost += f" Ack latency at p99: {_each(latency)}."
    return cost


def _each(milliseconds: dict[str, float]) -> str:
    return fmt.listing(
        f"{fmt.duration(value)} with {label}" for label, value in milliseconds.items()
    )
