"""The loss map: the acked offsets of lost records in each partition."""

from __future__ import annotations

from typing import Any

from ackproof.report import formatting as fmt
from ackproof.report.data.losses import Losses, LossLane
from ackproof.report.plots.figure import (
    MARGIN,
    ROW_HEIGHT,
    Figure,
    Key,
    lane_axis,
    lane_label,
)


def loss_map(losses: Losses) -> Figure | None:
    if not losses.lanes:
        return None
    labels = []
    track: dict[str, list[Any]] = {"base": [], "x": [], "y": []}
    marks: dict[str, list[Any]] = {"base": [], "x": [], "y": [], "hovertext": []}
    for row, lane in enumerate(losses.lanes):
        y = -row - 0.76
        labels.append(lane_label(_loss_label(lane), -row - 0.46))
        track["base"].append(0)
        track["x"].append(lane.log_end or lane.end)
        track["y"].append(y)
        for mark in lane.marks:
            marks["base"].append(mark.first)
            marks["x"].append(mark.last + 1 - mark.first)
            marks["y"].append(y)
            marks["hovertext"].append(_hover_of_mark(lane, mark.first, mark.last, mark.count))
    kinds = {lane.by for lane in losses.lanes}
    title = "acked offset" if kinds == {"offset"} else "producer's sequence"
    if len(kinds) == 2:
        title = "acked offset, or sequence without an offset"
    end = max(lane.end for lane in losses.lanes)
    height = ROW_HEIGHT * len(losses.lanes) + 56
    hidden = (
        f" {losses.hidden_lanes} more lanes with {fmt.count(losses.hidden_count)} lost records "
        "are not drawn."
        if losses.hidden_lanes
        else ""
    )
    without_offset = (
        " With acks=0 the broker returns no offset; these lost records are placed by their "
        "producer's sequence."
        if "sequence" in kinds
        else ""
    )
    bar = {"type": "bar", "orientation": "h"}
    return Figure(
        name="loss-map",
        title="Loss map",
        caption=f"Lost records by {title}; adjacent records share a mark.{without_offset}{hidden}",
        spoken="; ".join(_loss_label(lane) + _spoken_extent(lane) for lane in losses.lanes) + ".",
        height=height,
        timed=False,
        keys=(Key(colour="@track", text="final log"), Key(colour="@lost", text="lost"))
        if "offset" in kinds
        else (Key(colour="@lost", text="lost"),),
        traces=[
            {
                **bar,
                **track,
                "width": 0.3,
                "hoverinfo": "skip",
                "marker": {"color": "@track", "line": {"width": 0}},
            },
            {
                **bar,
                **marks,
                "width": 0.3,
                "hoverinfo": "text",
                "marker": {"color": "@lost", "line": {"width": 1.5, "color": "@lost"}},
            },
        ],
        layout={
            "height": height,
            "margin": {**MARGIN, "l": 14, "b": 44},
            "barmode": "overlay",
            "hovermode": "closest",
            "xaxis": {
                "range": [-0.01 * end, 1.01 * end],
                "tickformat": ",~r",
                "nticks": 6,
                "title": {"text": title},
            },
            "yaxis": lane_axis(len(losses.lanes)),
            "annotations": labels,
        },
    )


def _loss_label(lane: LossLane) -> str:
    producer = "" if lane.producer is None else f", producer {lane.producer}"
    return f"{lane.topic}-{lane.partition}{producer}: {fmt.count(lane.count)} lost"


def _spoken_extent(lane: LossLane) -> str:
    first, last = lane.marks[0].first, lane.marks[-1].last
    return f", {lane.by} {fmt.count(first)}" + (f" to {fmt.count(last)}" if last > first else "")


def _hover_of_mark(lane: LossLane, first: int, last: int, count: int) -> str:
    if first == last:
        return f"lost: {lane.by} {fmt.count(first)}"
    return f"{fmt.count(count)} lost: {lane.by}s {fmt.count(first)} to {fmt.count(last)}"
