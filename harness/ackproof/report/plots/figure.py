"""A plotly figure with a description for screen readers, and shared parts of plots.

Colours are roles (`@acked`, `@broker2/0.3` with an opacity). The page's script replaces them with
the colours of the style sheet, so that plots follow the light or dark scheme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ackproof.report.data.tables import Floats

#: Height of a row with a label above its bar.
ROW_HEIGHT = 34
MARGIN = {"l": 52, "r": 14, "t": 10, "b": 30}

_BROKER_COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of the legend."""

    colour: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot; `spoken` is its description for screen readers."""

    name: str
    title: str
    caption: str
    spoken: str
    height: int
    keys: tuple[Key, ...] = ()
    #: Whether the x axis is the run's time; the page synchronises these axes.
    timed: bool = True
    #: How the y axis follows the zoom: all values, the usual ones (a burst is cut off), or all of
    #: them on a log scale; empty for a y axis that stays as it is.
    follow: Literal["", "all", "usual", "log"] = ""
    traces: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)


def broker_colour(broker: int) -> str:
    """Return the colour role of a broker, the same in all plots."""
    return f"@broker{(broker - 1) % _BROKER_COLOURS + 1}"


def json_numbers(values: Floats) -> list[float | None]:
    """Round to four significant digits; NaN and infinity become null."""
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]


def lane_axis(rows: int) -> dict[str, Any]:
    """Return a y axis for `rows` lanes, from 0 at the top downwards."""
    return {
        "range": [-rows - 0.05, 0.05],
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
    }


def lane_label(text: str, y: float) -> dict[str, Any]:
    """Return a label at the left edge of a plot with its lower edge at `y`."""
    return {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "xshift": 2,
        "yref": "y",
        "y": y,
        "yanchor": "bottom",
        "text": escaped(text),
        "showarrow": False,
        "font": {"size": 12, "color": "@ink"},
        "borderpad": 0,
    }


def escaped(text: str) -> str:
    """Escape text for plotly, which interprets some HTML tags; keep its line breaks."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\n", "<br>")


def interval_marks(
    shares: Sequence[float],
    rows: Sequence[float],
    texts: Sequence[str],
    *,
    below: Sequence[float],
    above: Sequence[float],
) -> dict[str, Any]:
    """Return marks at `shares` with error bars of the lengths `below` and `above`."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": shares,
        "y": rows,
        "hovertext": texts,
        "hoverinfo": "text",
        "marker": {"color": "@lost", "size": 10},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": "@lost",
            "thickness": 1.5,
            "width": 5,
        },
    }
