"""The plot of ack latency over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ackproof.report import formatting as fmt
from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.data.tables import Floats
from ackproof.report.plots.figure import Figure, Key, json_numbers
from ackproof.report.plots.time_axis import band_height, bin_starts, timed_layout


def quantiles(run: Run, sends: Sends) -> Figure | None:
    """Plot median, 99th percentile and maximum on a log scale."""
    if not np.isfinite(sends.maximum).any():
        return None
    at = bin_starts(sends, middle=True)

    def line(values: Floats, text: str, **style: Any) -> dict[str, Any]:
        return {
            "type": "scatter",
            "x": at,
            "y": json_numbers(values),
            "text": [fmt.duration(v) if math.isfinite(v) else "" for v in values.tolist()],
            "hovertemplate": f"%{{text}} {text}<extra></extra>",
            **style,
        }

    height = 230 + band_height(run)
    return Figure(
        name="quantiles",
        title="Ack latency",
        caption=f"By time of the send; log scale; bins of {sends.width:g} s. Median and p99 have "
        "an error of up to 1 %, the longest is exact.",
        spoken=_spoken_quantiles(sends),
        height=height,
        keys=(
            Key(colour="@p50", text="median"),
            Key(colour="@p99", text="p99"),
            Key(colour="@longest", text="longest"),
        ),
        traces=[
            line(
                sends.maximum, "longest", mode="markers", marker={"color": "@longest", "size": 3.5}
            ),
            line(sends.p99, "p99", mode="lines", line={"color": "@p99", "width": 1.75}),
            line(sends.p50, "median", mode="lines", line={"color": "@p50", "width": 1.75}),
        ],
        follow="log",
        layout=timed_layout(run, height=height, bands=True, yaxis={"type": "log"}),
    )


def _spoken_quantiles(sends: Sends) -> str:
    worst = int(np.nanargmax(sends.maximum))
    return (
        f"Typical median of acked sends: {fmt.number(float(np.nanmedian(sends.p50)))} ms; "
        f"highest p99 {fmt.number(float(np.nanmax(sends.p99)))} ms; the longest, "
        f"{fmt.number(float(sends.maximum[worst]))} ms, of a send at "
        f"{worst * sends.width:.1f} s."
    )
