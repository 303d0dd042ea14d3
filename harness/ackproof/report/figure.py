"""Plotly figures with a description for screen readers, and the common style of all plots.

Colours are roles, such as `var(--acked)` or `var(--fault/0.1)` with an opacity. The page's script
replaces them with the colours of the style sheet, so that plots follow the light or dark scheme.
`templates/plot.json` has the common style: annotations are labels at the left edge, shapes are
faults behind the plot, and the ticks leave room for the marks of losses on the axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go

#: Height of a row with a label above its bar, and of a lane of a partition.
ROW_HEIGHT = 34
LANE_HEIGHT = 46
MARGIN = {"l": 52, "r": 14, "t": 10, "b": 30}

BROKER_COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    colour: str
    text: str
    opacity: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot; `spoken` is its description for screen readers.

    `timed`: the x axis is the run's time; the page synchronises these axes. `follow`: the values
    that the y axis shows after a zoom: `all`, the `usual` values (a burst is cut off), or all on a
    `log` scale. With an empty string the y axis does not change.
    """

    name: str
    title: str
    caption: str
    spoken: str
    traces: Sequence[Any]
    layout: Any
    keys: Sequence[Key] = ()
    timed: bool = True
    follow: Literal["", "all", "usual", "log"] = ""

    @property
    def height(self) -> int:
        height: int = self.layout.height
        return height


def colour(name: str, opacity: float | None = None) -> str:
    return f"var(--{name})" if opacity is None else f"var(--{name}/{opacity:g})"


def broker_colour(broker: int) -> str:
    """Return the name of a broker's colour, the same in all plots."""
    return f"broker{(broker - 1) % BROKER_COLOURS + 1}"


def lane_axis(rows: int) -> dict[str, Any]:
    """Return a y axis for `rows` lanes, from 0 at the top downwards."""
    return {"range": [-rows - 0.05, 0.05], "showticklabels": False, "showgrid": False}


def lane_label(text: str, y: float) -> dict[str, Any]:
    """Return a label at the left edge of a plot with its lower edge at `y`."""
    return {"text": escaped(text), "y": y, "xshift": 2}


def escaped(text: str) -> str:
    """Escape text for plotly, which interprets some HTML tags; line breaks become `<br>`."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\n", "<br>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A row of `intervals`: a share of 100 with the ends of its interval."""

    label: str
    text: str
    share: float
    low: float
    high: float


def intervals(rows: Sequence[Interval], layout: Any, **texts: Any) -> Figure:
    """Plot one mark with error bars per row, the first row at the top."""
    at = [-row for row in range(len(rows))]
    marks = go.Scatter(
        mode="markers",
        x=[round(row.share, 5) for row in rows],
        y=at,
        hovertext=[row.text for row in rows],
        hoverinfo="text",
        marker={"color": colour("lost"), "size": 10},
        error_x={
            "type": "data",
            "symmetric": False,
            "color": colour("lost"),
            "array": [round(max(row.high - row.share, 0.0), 5) for row in rows],
            "arrayminus": [round(max(row.share - row.low, 0.0), 5) for row in rows],
            "thickness": 1.5,
            "width": 5,
        },
    )
    spoken = "; ".join(row.text.replace("\n", ", ") for row in rows) + "."
    return Figure(spoken=spoken, timed=False, traces=[marks], layout=layout, **texts)
