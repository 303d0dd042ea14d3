"""The timeline: leader, epoch and ISR of each partition."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ackproof.report import formatting as fmt
from ackproof.report.data.partitions import Lane, Span
from ackproof.report.data.run import Run
from ackproof.report.plots.figure import (
    Figure,
    Key,
    broker_colour,
    lane_axis,
    lane_label,
)
from ackproof.report.plots.time_axis import timed_layout

_LANE_HEIGHT = 46


def timeline(run: Run) -> Figure | None:
    """Plot each partition as a lane: leader as colour, ISR size as height, epoch as text."""
    if not run.lanes:
        return None
    by_leader: dict[int, dict[str, list[Any]]] = {}
    labels, tracks = [], []
    for row, lane in enumerate(run.lanes):
        floor = -row - 0.96
        labels.append(lane_label(f"{lane.topic}-{lane.partition}", -row - 0.34))
        for span in lane.spans:
            bars = by_leader.setdefault(
                span.leader,
                {"base": [], "x": [], "y": [], "width": [], "text": [], "hovertext": []},
            )
            height = 0.6 * (len(span.isr) / lane.replicas if span.leader >= 0 else 1)
            bars["base"].append(round(span.start, 3))
            bars["x"].append(round(span.end - span.start, 3))
            bars["y"].append(round(floor + height / 2, 4))
            bars["width"].append(round(height, 4))
            bars["text"].append(f"epoch {span.epoch}" if span.leader >= 0 else "no leader")
            bars["hovertext"].append(_hover_of_span(run, lane, span))
        if lane.spans:
            start, end = lane.spans[0].start, lane.spans[-1].end
            tracks.append((round(start, 3), round(end - start, 3), floor + 0.3))
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "base": [track[0] for track in tracks],
            "x": [track[1] for track in tracks],
            "y": [track[2] for track in tracks],
            "width": 0.6,
            "marker": {"color": "@track", "line": {"width": 0}},
            "hoverinfo": "skip",
        }
    ]
    for leader, bars in sorted(by_leader.items()):
        none = leader < 0
        colour = "@lost/0.12" if none else broker_colour(leader)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "hoverinfo": "text",
                "textposition": "inside",
                "insidetextanchor": "start",
                "textangle": 0,
                "insidetextfont": {"color": "@ink" if none else "@on-broker"},
                "marker": {
                    "color": colour,
                    "line": {"width": 1, "color": "@lost" if none else "@surface"},
                    **(
                        {
                            "pattern": {
                                "shape": "/",
                                "fgcolor": "@lost",
                                "size": 12,
                                "solidity": 0.06,
                            }
                        }
                        if none
                        else {}
                    ),
                },
                **bars,
            }
        )
    hidden = (
        f" {run.hidden_lanes} more partitions, with fewer changes, are not drawn."
        if run.hidden_lanes
        else ""
    )
    height = _LANE_HEIGHT * len(run.lanes) + 40
    return Figure(
        name="timeline",
        title="Leader, epoch and ISR",
        caption="Colour: the leader. Height: the size of the ISR; full height: all replicas."
        + hidden,
        spoken=" ".join(_spoken_lane(lane) for lane in run.lanes),
        height=height,
        keys=tuple(
            Key(colour=broker_colour(leader), text=f"broker {leader}")
            if leader >= 0
            else Key(colour="@lost/0.3", text="no leader")
            for leader in sorted(by_leader)
        ),
        traces=traces,
        layout=timed_layout(
            run,
            height=height,
            bands=True,
            band_labels=False,
            yaxis=lane_axis(len(run.lanes)),
            annotations=labels,
            barmode="overlay",
            hovermode="closest",
            uniformtext={"mode": "hide", "minsize": 10},
        ),
    )


def _hover_of_span(run: Run, lane: Lane, span: Span) -> str:
    start = run.origin + timedelta(seconds=span.start) if run.origin else None
    leader = f"leader {span.leader}" if span.leader >= 0 else "no leader"
    elr = f"\nELR {list(span.elr)}" if span.elr else ""
    return (
        f"{lane.topic}-{lane.partition}: {leader}, epoch {span.epoch}"
        f"\nISR {list(span.isr)} of {lane.replicas} replicas{elr}"
        f"\nfrom {span.start:.2f} to {span.end:.2f} s ({fmt.clock(start)} UTC)"
    )


def _spoken_lane(lane: Lane) -> str:
    parts = [
        (f"leader {span.leader}" if span.leader >= 0 else "no leader")
        + f", epoch {span.epoch}, ISR of {len(span.isr)} from {span.start:.1f} s"
        for span in lane.spans[:10]
    ]
    more = f", and {len(lane.spans) - 10} more changes" if len(lane.spans) > 10 else ""
    return f"{lane.topic}-{lane.partition}: {'; '.join(parts)}{more}."
