"""What a comparison of many trials says: in words, as a table, and as two plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ackproof.comparison.summary import Cell, Pair, Summary
from ackproof.report import wording
from ackproof.report.plots.figure import Figure, interval_marks, lane_label
from ackproof.runs.verdict import Verdict

#: The page shows so many runs in full; all others stay in their directories.
SHOWN_RUNS = 8
#: Up to so many configurations are all named in the plot.
_NAMED = 4
_ROW = 46
_MARGIN = {"l": 60, "r": 20, "t": 12, "b": 44}


def shown_runs(summary: Summary, results: Sequence[tuple[Path, Verdict]]) -> list[Path]:
    """Return the runs to show in full: all of a single round, else the most telling of each."""
    if summary.plan.trials == 1:
        return [run_dir for run_dir, _ in results]
    telling: dict[str, tuple[Path, Verdict]] = {}
    for run_dir, verdict in results:
        label = f"{verdict.scenario}/{verdict.configuration_name}"
        best = telling.get(label)
        if best is None or _lost(verdict) > _lost(best[1]):
            telling[label] = (run_dir, verdict)
    return [run_dir for run_dir, _ in list(telling.values())[:SHOWN_RUNS]]


def _lost(verdict: Verdict) -> int:
    return verdict.observed.get("lost", 0)


def percent(share: float) -> str:
    """Return a probability in percent, with two digits that count."""
    return f"{100 * share:.3g} %"


def chance(cell: Cell, confidence: float) -> str:
    """Say how likely a trial of this configuration loses."""
    if not cell.trials:
        return cell.error or "no trial could tell"
    interval = f"{percent(cell.lost_share_low)} to {percent(cell.lost_share_high)}"
    return (
        f"{cell.losing} of {cell.trials} trials lost; "
        f"with {percent(confidence)} confidence {interval} do"
    )


def answer(summary: Summary) -> list[str]:
    """Return what the comparison found, in a paragraph."""
    sentences = [*_losses(summary), *_prices(summary), *_settled(summary)]
    for cell in summary.cells:
        if cell.failed:
            sentences.append(
                f"{cell.configuration} could not be run {_times(cell.failed)}: {cell.error}."
            )
        if cell.inconclusive:
            sentences.append(
                f"Of {cell.configuration}, {wording.count(cell.inconclusive)} inconclusive "
                "trials do not count."
            )
    sentences.append(_ended(summary))
    return sentences


def _trials(number: int) -> str:
    return f"{number} trial" + ("s" if number != 1 else "")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _losses(summary: Summary) -> list[str]:
    sure = percent(summary.plan.confidence)
    sentences = []
    for cell in summary.cells:
        if not cell.trials:
            continue
        if not cell.losing:
            often = f"fewer than 1 in {max(1, math.floor(1 / cell.lost_share_high))}"
            if cell.lost_share_high > 0.5:
                often = f"up to {percent(cell.lost_share_high)}"
            found = f"lost nothing in {_trials(cell.trials)}, so {often} such trials lose"
        else:
            low, high = percent(cell.lost_share_low), percent(cell.lost_share_high)
            typical = cell.lost_per_incident
            each = f", {wording.count(round(typical.median))} records each time" if typical else ""
            found = (
                f"lost in {cell.losing} of {_trials(cell.trials)}{each}, so {low} to {high} "
                "such trials lose"
            )
        sentences.append(f"{_quoted(cell.configuration)} {found}.")
    if sentences:
        sentences[0] = f"With {sure} confidence in each interval: {sentences[0]}"
    return sentences


_UNITS = {
    "unavailability_s": ("unavailability", 1000.0),
    "recovery_s": ("recovery after the heal", 1000.0),
    "ack_latency_p50_ms": ("ack latency p50", 1.0),
    "ack_latency_p99_ms": ("ack latency p99", 1.0),
}


def _prices(summary: Summary) -> list[str]:
    """Say what a configuration that loses less costs more, where that is no noise."""
    sentences = []
    for pair in summary.pairs:
        costs = [
            cost(shift.measure, shift.shift, summary.cell(pair.a))
            for shift in pair.shifts
            if shift.p_value <= summary.alpha
        ]
        if costs:
            sentences.append(f"{pair.b} against {pair.a}: {wording.listing(costs)}.")
    return sentences


def cost(measure: str, shift: float, against: Cell) -> str:
    """Say by how much a measure is larger or smaller: `unavailability +1.2 s`."""
    sign = "+" if shift > 0 else "\N{MINUS SIGN}"
    if measure == "acked_per_s":
        before = against.acked_per_s
        share = abs(shift) / before.median if before and before.median else 0.0
        return f"throughput {sign}{percent(share)}"
    name, factor = _UNITS[measure]
    return f"{name} {sign}{wording.duration(abs(shift) * factor)}"


def _settled(summary: Summary) -> list[str]:
    """Say which pairs differ, which are alike, and what the others need; grouped, to be short."""
    worse: dict[str, list[str]] = {}
    for pair in summary.pairs:
        if pair.settled == "different":
            more, less = by_loss(pair, summary)
            worse.setdefault(more, []).append(less)
    sentences = [
        f"{more} loses more often than {wording.listing(map(_quoted, less))}."
        for more, less in worse.items()
    ]
    sentences += [pair_sentence(pair, summary) for pair in summary.pairs if pair.settled == "alike"]
    undecided = [pair for pair in summary.pairs if not pair.settled]
    if len(undecided) <= _SHOWN_PAIRS:
        return sentences + [pair_sentence(pair, summary) for pair in undecided]
    needed = [pair.more_trials for pair in undecided if pair.more_trials is not None]
    most = f"about {wording.count(max(needed))} more trials of each" if needed else "no number"
    return [
        *sentences,
        f"{len(undecided)} of {len(summary.pairs)} pairs are not settled: {most} would settle all.",
    ]


#: More unsettled pairs than these are summed up; the table has all.
_SHOWN_PAIRS = 3


def _quoted(name: str) -> str:
    return f"'{name}'" if "," in name else name


def by_loss(pair: Pair, summary: Summary) -> tuple[str, str]:
    """Return the names of a pair, the one that loses more often first."""
    a, b = summary.cell(pair.a), summary.cell(pair.b)
    return (pair.a, pair.b) if a.losing * b.trials > b.losing * a.trials else (pair.b, pair.a)


def pair_sentence(pair: Pair, summary: Summary) -> str:
    """Say what is known of a pair's losses, or how many more trials would tell."""
    if pair.settled == "different":
        more, less = by_loss(pair, summary)
        return f"{more} loses more often than {less} (p = {pair.p_value:.2g}, corrected)."
    if pair.settled == "alike":
        return (
            f"{pair.a} and {pair.b} lose alike: their chances differ by less than "
            f"{percent(summary.plan.margin)}."
        )
    if pair.more_trials is None:
        return f"Whether {pair.a} and {pair.b} differ, no reasonable number of trials would tell."
    return (
        f"Whether {pair.a} and {pair.b} differ is not settled: about "
        f"{wording.count(pair.more_trials)} more trials of each would."
    )


def _ended(summary: Summary) -> str:
    why = {
        "settled": "every pair was settled",
        "trials": "the planned trials were done",
        "budget": "the time was used up",
        "interrupted": "it was interrupted: no claim is final",
    }[summary.ended]
    rounds = "round" if summary.rounds == 1 else "rounds"
    return f"Ended after {summary.rounds} {rounds}: {why}."


def recommendations(summary: Summary) -> list[tuple[Cell, str]]:
    """Return each configuration with what it is good for, the safest first.

    A configuration is dominated if another, under the same faults, is no worse in loss,
    unavailability and ack latency p99, and better in one of them.
    """
    scored = [cell for cell in summary.cells if cell.trials and cell.unavailability_s]
    ordered = sorted(scored, key=lambda cell: (_share(cell), cell.lost_share_high, _down(cell)))
    return [(cell, _advice(cell, better(cell, summary), summary)) for cell in ordered]


def _advice(cell: Cell, rivals: Sequence[Cell], summary: Summary) -> str:
    if rivals:
        return f"no reason seen: {rivals[0].configuration} was better, or as good, in everything"
    if cell.losing:
        return "where these losses are acceptable for what it saves"
    if cell.lost_share_high > summary.plan.margin:
        return (
            "perhaps, where acked records must survive these faults: it lost none, but "
            f"{_trials(cell.trials)} cannot rule out that {percent(cell.lost_share_high)} lose"
        )
    return "where acked records must survive these faults"


def better(cell: Cell, summary: Summary) -> list[Cell]:
    """Return the configurations that dominate one, under the same faults."""
    faults = summary.plan.faults
    return [
        other
        for other in summary.cells
        if other.trials
        and faults.get(other.configuration) == faults.get(cell.configuration)
        and dominates(other, cell)
    ]


def dominates(one: Cell, other: Cell) -> bool:
    """Whether `one` is no worse in everything, and better in something."""
    ours = (_share(one), _down(one), _p99(one))
    theirs = (_share(other), _down(other), _p99(other))
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


def _share(cell: Cell) -> float:
    return cell.losing / cell.trials if cell.trials else 1.0


def _down(cell: Cell) -> float:
    return cell.unavailability_s.median if cell.unavailability_s else math.inf


def _p99(cell: Cell) -> float:
    return cell.ack_latency_ms["p99"].median if "p99" in cell.ack_latency_ms else math.inf


def figures(summary: Summary) -> list[Figure]:
    """Return the comparison's plots: chances to lose, and durability against its price."""
    cells = [cell for cell in summary.cells if cell.trials]
    return [_chances(cells, summary.plan.confidence), _pareto(cells, summary)] if cells else []


def _chances(cells: Sequence[Cell], confidence: float) -> Figure:
    shares = [round(100 * _share(cell), 3) for cell in cells]
    texts = [f"{cell.configuration}: {chance(cell, confidence)}" for cell in cells]
    rows = [len(cells) - 1 - row for row in range(len(cells))]
    trace = interval_marks(
        shares,
        rows,
        texts,
        below=[
            round(share - 100 * cell.lost_share_low, 3)
            for cell, share in zip(cells, shares, strict=True)
        ],
        above=[
            round(100 * cell.lost_share_high - share, 3)
            for cell, share in zip(cells, shares, strict=True)
        ],
    )
    height = _ROW * len(cells) + _MARGIN["t"] + _MARGIN["b"]
    return Figure(
        name="chances",
        title="Trials that lose records",
        caption=f"Share of trials, with {percent(confidence)} Clopper-Pearson intervals that hold "
        "whenever the comparison was stopped.",
        spoken="; ".join(texts) + ".",
        height=height,
        timed=False,
        traces=[trace],
        layout={
            "height": height,
            "margin": {**_MARGIN, "l": 14},
            "hovermode": "closest",
            "xaxis": {"range": [-2, 102], "ticksuffix": " %", "title": {"text": "trials"}},
            "yaxis": {"visible": False, "range": [-0.6, len(cells) - 0.3]},
            "annotations": [
                lane_label(cell.configuration, row + 0.12)
                for cell, row in zip(cells, rows, strict=True)
            ],
        },
    )


def _pareto(cells: Sequence[Cell], summary: Summary) -> Figure:
    front = {cell.configuration for cell in cells if not better(cell, summary)}
    placed = [cell for cell in cells if cell.unavailability_s]
    slowest = max((_p99(cell) for cell in placed if _p99(cell) < math.inf), default=1.0)
    texts = [
        f"{cell.configuration}: {percent(_share(cell))} of trials lose, unavailable "
        f"{wording.number(_down(cell))} s, ack latency p99 "
        + (wording.duration(_p99(cell)) if _p99(cell) < math.inf else "unknown")
        + (", on the Pareto front" if cell.configuration in front else ", dominated")
        for cell in placed
    ]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers+text",
        "x": [round(_down(cell), 3) for cell in placed],
        "y": [round(100 * _share(cell), 3) for cell in placed],
        # Names of many would lie over each other: the front's matter, the others' are hovered.
        "text": [
            cell.configuration if len(placed) <= _NAMED or cell.configuration in front else ""
            for cell in placed
        ],
        "textposition": "top center",
        "cliponaxis": False,
        "hovertext": texts,
        "hoverinfo": "text",
        "marker": {
            "size": [
                round(12 + 26 * math.sqrt(min(_p99(cell), slowest) / max(slowest, 1e-9)), 1)
                for cell in placed
            ],
            "color": ["@holds" if cell.configuration in front else "@longest" for cell in placed],
            "opacity": 0.75,
        },
    }
    most = max((_down(cell) for cell in placed), default=1.0)
    return Figure(
        name="pareto",
        title="Durability, availability and latency",
        caption="Down and left is better; a larger mark is a higher ack latency p99. Green: no "
        "other configuration under the same faults is as good in all three. Medians over trials.",
        spoken="; ".join(texts) + ".",
        height=360,
        timed=False,
        traces=[trace],
        layout={
            "height": 360,
            "margin": {**_MARGIN, "t": 36},
            "hovermode": "closest",
            "xaxis": {
                "ticksuffix": " s",
                "range": [-0.15 * (most or 1), 1.2 * (most or 1)],
                "title": {"text": "unavailable, worst partition"},
            },
            "yaxis": {
                "ticksuffix": " %",
                "range": [-8, 112],
                "title": {"text": "trials that lose"},
            },
        },
    )
