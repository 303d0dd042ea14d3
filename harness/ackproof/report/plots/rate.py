"""The plot of the rate: sends per second by outcome, and lost acked sends."""

from __future__ import annotations

from typing import Any

import numpy as np

from ackproof.report import formatting as fmt
from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.data.tables import Numbers
from ackproof.report.plots.figure import Figure, Key, json_numbers
from ackproof.report.plots.time_axis import band_height, bin_starts, timed_layout


def rate(run: Run, sends: Sends) -> Figure:
    series = [
        ("@acked", sends.acked, "acked", 0.2),
        ("@lost", sends.lost, "acked, but lost", 0.7),
        ("@unknown", sends.unknown, "unknown", 0.0),
        ("@failed", sends.failed, "failed", 0.0),
    ]
    drawn = [entry for entry in series if entry[2] == "acked" or entry[1].any()]
    at = bin_starts(sends)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": at,
            "y": json_numbers(values / sends.width),
            "line": {"color": colour, "width": 1.5, "shape": "hv"},
            "hovertemplate": f"%{{y:,.0f}}/s {text}<extra></extra>",
            "fill": "tozeroy" if opacity else "none",
            "fillcolor": f"{colour}/{opacity}",
        }
        for colour, values, text, opacity in drawn
    ]
    # The height of the y axis: a burst, as when clients catch up, is cut off on the page.
    height = 2 * np.quantile(sends.acked[sends.acked > 0], 0.9) if sends.acked.any() else 0
    where = np.flatnonzero((sends.lost > 0) & (sends.lost * 50 < height)).tolist()
    if where:
        # A few lost records among thousands are invisible as an area; a tick on the axis is not.
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [at[index] for index in where],
                "y": [0] * len(where),
                "marker": {
                    "symbol": "line-ns-open",
                    "size": 11,
                    "color": "@lost",
                    "line": {"width": 2},
                },
                "cliponaxis": False,
                "hoverinfo": "skip",
            }
        )
    untimed = (
        f" {fmt.count(sends.untimed)} sends have no time and are not drawn."
        if sends.untimed
        else ""
    )
    return Figure(
        name="rate",
        title="Rate",
        caption="Sends per second by outcome, at the time of the outcome; "
        f"bins of {sends.width:g} s.{untimed}",
        spoken=_spoken_rate(sends),
        height=230 + band_height(run),
        keys=tuple(Key(colour=colour, text=text) for colour, _, text, _ in drawn),
        traces=traces,
        follow="usual",
        layout=timed_layout(
            run,
            height=230 + band_height(run),
            bands=True,
            yaxis={"rangemode": "tozero", "tickformat": ",~r", "nticks": 5},
        ),
    )


def _spoken_rate(sends: Sends) -> str:
    per_second = sends.acked / sends.width
    parts = [
        f"Acked sends per second: median {fmt.number(float(np.median(per_second)))}, "
        f"highest {fmt.number(float(per_second.max()))}"
    ]
    gap = _longest_gap(sends.acked)
    if gap:
        parts.append(
            f"nothing acked from {gap[0] * sends.width:.1f} to {gap[1] * sends.width:.1f} s"
        )
    if sends.lost.any():
        where = np.flatnonzero(sends.lost)
        parts.append(
            f"{fmt.count(int(sends.lost.sum()))} acked records were lost, acked between "
            f"{where[0] * sends.width:.1f} and {(where[-1] + 1) * sends.width:.1f} s"
        )
    for name, counts in (("unknown", sends.unknown), ("failed", sends.failed)):
        if counts.any():
            parts.append(f"{fmt.count(int(counts.sum()))} sends {name}")
    return "; ".join(parts) + "."


def _longest_gap(acked: Numbers) -> tuple[int, int] | None:
    """Return the longest series of bins without an ack between the first and last ack."""
    filled = np.flatnonzero(acked)
    if filled.size < 2:
        return None
    gaps = np.diff(filled)
    widest = int(gaps.argmax())
    return (int(filled[widest]) + 1, int(filled[widest + 1])) if gaps[widest] > 1 else None
