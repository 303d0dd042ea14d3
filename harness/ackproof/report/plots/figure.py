"""One plot as a plotly figure, with what it says in words, and the parts that plots share.

Colours are roles (`@acked`, `@broker2/0.3` with an opacity), not values: the page's script puts
in those of its style sheet, so that plots follow the light and the dark scheme. Names follow
the field's: rate, quantiles, timeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ackproof.report.data.tables import Floats

#: The height of a row in which a bar stands under its label.
ROW_HEIGHT = 34
MARGIN = {"l": 52, "r": 14, "t": 10, "b": 30}

_BROKER_COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of a plot's legend."""

    colour: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot: what it shows, for eyes (`traces`, `layout`) and for ears (`spoken`)."""

    name: str
    title: str
    caption: str
    spoken: str
    height: int
    keys: tuple[Key, ...] = ()
    #: Whether its x axis is the run's time, shared by every such plot of the run.
    timed: bool = True
    traces: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)


def broker_colour(broker: int) -> str:
    """Return the colour that stands for a broker on the whole page."""
    return f"@broker{(broker - 1) % _BROKER_COLOURS + 1}"


def json_numbers(values: Floats) -> list[float | None]:
    """Return values as JSON has them: four digits, null for what is not there."""
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]


def lane_axis(rows: int) -> dict[str, Any]:
    """Return a y axis with so many rows, the first at the top, from 0 down."""
    return {
        "range": [-rows - 0.05, 0.05],
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
    }


def lane_label(text: str, y: float) -> dict[str, Any]:
    """Return a label at the left edge of a plot, its foot at `y`."""
    return {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "xshift": 2,
        "yref": "y",
        "y": y,
        "yanchor": "bottom",
        "text": _escaped(text),
        "showarrow": False,
        "font": {"size": 12, "color": "@ink"},
        "borderpad": 0,
    }


def _escaped(text: str) -> str:
    """Return text that plotly shows as it is: it reads a few HTML tags in labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def interval_marks(
    shares: Sequence[float],
    rows: Sequence[float],
    texts: Sequence[str],
    *,
    below: Sequence[float],
    above: Sequence[float],
) -> dict[str, Any]:
    """Return a mark for each share that loses, with its interval: so far below it, so far above."""
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
