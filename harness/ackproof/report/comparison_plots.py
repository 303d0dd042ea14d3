"""The plots of a comparison: loss rates, and durability against availability and latency."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from ackproof.comparison.summary import Cell, Summary
from ackproof.report import comparison as trials
from ackproof.report.figure import Figure, Interval, colour, intervals, lane_label
from ackproof.report.formatting import percent

#: Maximum number of configurations that are all labelled.
_LABELLED = 4
_ROW = 46
_MARGIN = {"l": 60, "r": 20, "t": 12, "b": 44}


def figures(summary: Summary) -> list[Figure]:
    cells = [cell for cell in summary.cells if cell.trials]
    return [_loss_rates(cells, summary.plan.confidence), _pareto(cells, summary)] if cells else []


def _loss_rates(cells: Sequence[Cell], confidence: float) -> Figure:
    rows = [
        Interval(
            label=cell.configuration,
            text=f"{cell.configuration}: {_trials_text(cell, confidence)}",
            share=100 * trials.loss_rate(cell),
            low=100 * cell.lost_share_low,
            high=100 * cell.lost_share_high,
        )
        for cell in cells
    ]
    layout = go.Layout(
        height=_ROW * len(cells) + _MARGIN["t"] + _MARGIN["b"],
        margin={**_MARGIN, "l": 14},
        xaxis={"range": [-2, 102], "ticksuffix": " %", "title_text": "trials"},
        yaxis={"visible": False, "range": [0.4 - len(cells), 0.7]},
        annotations=[lane_label(row.label, 0.12 - at) for at, row in enumerate(rows)],
    )
    return intervals(
        rows,
        layout,
        name="chances",
        title="Trials that lose records",
        caption=f"Share of trials, with {percent(confidence)} Clopper-Pearson intervals that hold "
        "whenever the comparison was stopped.",
    )


def _pareto(cells: Sequence[Cell], summary: Summary) -> Figure:
    compared = [cell for cell in cells if trials.is_measured(cell)]
    front = {cell.configuration for cell in compared if not trials.dominators(cell, summary)}
    placed = [cell for cell in cells if cell.unavailability_s]
    most = max((trials.unavailable_s(cell) for cell in placed), default=1.0) or 1
    slowest = max(map(_known, placed), default=0.0) or 1.0
    texts = [
        f"{cell.configuration}: {percent(trials.loss_rate(cell))} of trials lose, unavailable for "
        f"{trials.unavailability(cell)}, ack latency p99 {trials.p99(cell) or 'unknown'}"
        + (", on the Pareto front" if cell.configuration in front else "")
        + (", dominated" if cell in compared and cell.configuration not in front else "")
        for cell in placed
    ]
    trace = go.Scatter(
        mode="markers+text",
        x=[round(trials.unavailable_s(cell), 3) for cell in placed],
        y=[round(100 * trials.loss_rate(cell), 3) for cell in placed],
        # Many labels would overlap, so only configurations on the front have one.
        text=[
            cell.configuration if len(placed) <= _LABELLED or cell.configuration in front else ""
            for cell in placed
        ],
        textposition=[
            "top right" if trials.unavailable_s(cell) < 0.15 * most else "top center"
            for cell in placed
        ],
        cliponaxis=False,
        hovertext=texts,
        hoverinfo="text",
        marker={
            "size": [round(12 + 26 * math.sqrt(_known(cell) / slowest), 1) for cell in placed],
            "symbol": ["circle" if cell in compared else "circle-open" for cell in placed],
            "color": [
                colour("holds" if cell.configuration in front else "longest") for cell in placed
            ],
            "opacity": 0.75,
        },
    )
    return Figure(
        name="pareto",
        title="Durability, availability and latency",
        caption="Down and left is better; a larger mark is a higher ack latency p99. Green: no "
        "other configuration under the same faults is as good in all three. Hollow: times that "
        "are not exact, so not compared. Medians over trials.",
        spoken="; ".join(texts) + ".",
        timed=False,
        traces=[trace],
        layout=go.Layout(
            height=360,
            margin={**_MARGIN, "t": 36},
            xaxis={
                "ticksuffix": " s",
                "range": [-0.04 * most, 1.2 * most],
                "title_text": "unavailable, worst partition",
            },
            yaxis={"ticksuffix": " %", "range": [-8, 112], "title_text": "trials that lose"},
        ),
    )


def _known(cell: Cell) -> float:
    """Return the p99 in milliseconds; 0 if it is unknown."""
    return trials.p99_ms(cell) if trials.p99_ms(cell) < math.inf else 0.0


def _trials_text(cell: Cell, confidence: float) -> str:
    interval = f"{percent(cell.lost_share_low)} to {percent(cell.lost_share_high)}"
    return (
        f"{cell.losing} of {cell.trials} trials lost; "
        f"interval of the loss probability {interval} at {percent(confidence)} confidence"
    )
