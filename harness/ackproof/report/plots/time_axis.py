"""The time axis that the plots of a run share, with its faults as bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackproof.report import formatting as fmt
from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.plots.figure import MARGIN
from ackproof.runs.verdict import FaultReport

_LABEL_HEIGHT = 14


def time_range(run: Run) -> list[float]:
    """Return start and end of the time axis: the run and its faults, with a small margin."""
    starts = [run.second(window.injected_at) for window in run.windows]
    begin, end = min(0.0, *starts, 0.0), max(run.end, 0.1)
    margin = 0.01 * (end - begin)
    return [round(begin - margin, 3), round(end + margin, 3)]


def zoom_range(run: Run, window: FaultReport) -> list[float]:
    """Return the range of one fault, with a quarter of its duration on each side."""
    start, end = run.second(window.injected_at), end_of(run, window)
    margin = max(0.25 * (end - start), 0.5)
    lowest, highest = time_range(run)
    return [round(max(lowest, start - margin), 3), round(min(highest, end + margin), 3)]


def end_of(run: Run, window: FaultReport) -> float:
    """Return when the fault had recovered (or was healed), or the end of the run."""
    last = window.recovered_at or window.healed_at
    return run.second(last) if last else max(run.end, run.second(window.injected_at))


def bin_starts(sends: Sends, *, middle: bool = False) -> list[float]:
    """Return the start or the middle of each bin in seconds."""
    shift = 0.5 if middle else 0.0
    return [round((index + shift) * sends.width, 3) for index in range(sends.acked.size)]


def _band_rows(run: Run) -> list[int]:
    """Return the row of each fault's label above a plot, so that labels do not overlap."""
    low, high = time_range(run)
    least = 0.05 * (high - low)
    last: list[float] = []
    rows = []
    for window in run.windows:
        start = run.second(window.injected_at)
        row = next((i for i, end in enumerate(last) if start - end >= least), len(last))
        last[row : row + 1] = [start]
        rows.append(row)
    return rows


def band_height(run: Run) -> int:
    """Return the height of the faults' labels above a plot."""
    return _LABEL_HEIGHT * (max(_band_rows(run), default=-1) + 1)


def timed_layout(
    run: Run,
    *,
    height: int,
    yaxis: dict[str, Any],
    bands: bool = False,
    band_labels: bool = True,
    annotations: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return the layout of a plot over the run's time, with the faults as bands if `bands`."""
    shapes, labels = [], list(annotations)
    if bands:
        for window, row in zip(run.windows, _band_rows(run), strict=True):
            start, end = run.second(window.injected_at), end_of(run, window)
            healed = run.second(window.healed_at) if window.healed_at else end
            behind = {"layer": "below", "xref": "x", "yref": "paper", "y0": 0, "y1": 1}
            shapes.append(
                {
                    "type": "rect",
                    **behind,
                    "x0": round(start, 3),
                    "x1": round(healed, 3),
                    "line": {"width": 0},
                    "fillcolor": "@fault/0.1",
                }
            )
            shapes.append(
                {
                    "type": "line",
                    **behind,
                    "x0": round(start, 3),
                    "x1": round(start, 3),
                    "line": {"width": 1, "color": "@fault/0.6", "dash": "dot"},
                }
            )
            if band_labels:
                labels.append(
                    {
                        "xref": "x",
                        "x": round(start, 3),
                        "xanchor": "left",
                        "yref": "paper",
                        "y": 1,
                        "yanchor": "bottom",
                        "yshift": row * _LABEL_HEIGHT,
                        "showarrow": False,
                        "text": fmt.fault(window.window),
                        "borderpad": 0,
                        "font": {"size": 11, "color": "@fault"},
                    }
                )
    top = MARGIN["t"] + (band_height(run) if bands and band_labels else 0)
    return {
        "height": height,
        "margin": {**MARGIN, "t": top},
        "hovermode": "x unified",
        "xaxis": {
            "range": time_range(run),
            "ticksuffix": " s",
            "nticks": 9,
            "unifiedhovertitle": {"text": "%{x:.2f} s"},
        },
        "yaxis": yaxis,
        "shapes": shapes,
        "annotations": labels,
        **more,
    }
