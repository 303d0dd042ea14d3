"""What the trials of a comparison show with its confidence, in sentences."""

from __future__ import annotations

from ackproof.comparison.summary import Cell, Pair, Summary
from ackproof.report import formatting as fmt
from ackproof.report.comparison import ENDED
from ackproof.report.formatting import percent

#: Unsettled pairs with a sentence of their own; the table of pairs has all.
_SHOWN_PAIRS = 3


def statistics(summary: Summary) -> list[str]:
    """Return what the trials of a comparison show with its confidence."""
    if not summary.sampled:
        return []
    return [*_chances(summary), *_costs(summary), *_settled(summary), _ended(summary)]


def _chances(summary: Summary) -> list[str]:
    sentences = [
        f"{fmt.quoted(cell.configuration)} loses in {fmt.about(cell.lost_share_low)} to "
        f"{fmt.about(cell.lost_share_high)} of such runs."
        for cell in summary.cells
        if cell.trials
    ]
    if sentences:
        sentences[0] = (
            f"With {percent(summary.plan.confidence)} confidence in each interval: {sentences[0]}"
        )
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
            a, b = fmt.quoted(pair.a), fmt.quoted(pair.b)
            sentences.append(f"{b} against {a}: {fmt.listing(costs)}.")
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
        f"{fmt.quoted(more)} loses more often than {fmt.listing(map(fmt.quoted, less))}."
        for more, less in worse.items()
    ]
    sentences += [pair_sentence(pair, summary) for pair in summary.pairs if pair.settled == "alike"]
    undecided = [pair for pair in summary.pairs if not pair.settled]
    if len(undecided) <= _SHOWN_PAIRS:
        return sentences + [pair_sentence(pair, summary) for pair in undecided]
    needed = [pair.more_trials for pair in undecided if pair.more_trials is not None]
    remedy = (
        f"about {fmt.count(max(needed))} more trials of each would settle all."
        if needed
        else "no reasonable number of trials would settle them."
    )
    return [
        *sentences,
        f"{len(undecided)} of {len(summary.pairs)} pairs are not settled; {remedy}",
    ]


def by_loss(pair: Pair, summary: Summary) -> tuple[str, str]:
    """Return the names of a pair; the configuration that loses more often is first."""
    a, b = summary.cell(pair.a), summary.cell(pair.b)
    return (pair.a, pair.b) if a.losing * b.trials > b.losing * a.trials else (pair.b, pair.a)


def pair_sentence(pair: Pair, summary: Summary) -> str:
    """Return which of a pair loses more often, or how many more trials would settle it."""
    a, b = fmt.quoted(pair.a), fmt.quoted(pair.b)
    if pair.settled == "different":
        more, less = map(fmt.quoted, by_loss(pair, summary))
        return f"{more} loses more often than {less} (p = {pair.p_value:.2g}, corrected)."
    if pair.settled == "alike":
        return (
            f"{a} and {b} lose alike: their loss probabilities differ by less than "
            f"{percent(summary.plan.margin)}."
        )
    if pair.more_trials is None:
        return (
            f"Whether {a} and {b} differ is not settled, and no reasonable number of "
            "trials would settle it."
        )
    return (
        f"Whether {a} and {b} differ is not settled: about "
        f"{fmt.plural(pair.more_trials, 'more trial')} of each would settle it."
    )


def _ended(summary: Summary) -> str:
    final = ", so no result is final" if summary.ended == "interrupted" else ""
    return f"Ended after {fmt.plural(summary.rounds, 'round')}: {ENDED[summary.ended]}{final}."
