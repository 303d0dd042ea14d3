"""When the probe could read and write each partition."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ackproof.judgement.availability import Attempts
from ackproof.report.data.partitions import MAX_LANES
from ackproof.report.data.run import Run
from ackproof.report.plots.figure import Figure, Key, lane_axis, lane_label
from ackproof.report.plots.time_axis import timed_layout

_LANE_HEIGHT = 46
#: Height of a track, and the distance of its middle from the top of its lane.
_TRACK = 0.24
_MIDDLE = {"read": 0.48, "write": 0.76}
_COLOURS = {True: "@acked", False: "@lost"}
_PAST = {"read": "read", "write": "written"}


def availability(run: Run) -> Figure | None:
    """Plot each partition as a lane: the upper track is reading, the lower one writing."""
    if not run.probed or run.origin is None:
        return None
    bars: dict[bool, dict[str, list[Any]]] = {
        available: {"base": [], "x": [], "y": [], "hovertext": []} for available in (True, False)
    }
    labels, spoken = [], []
    for row, ((topic, partition), actions) in enumerate(list(run.probed.items())[:MAX_LANES]):
        labels.append(lane_label(f"{topic}-{partition}: read, write", -row - 0.34))
        for action, of in actions.items():
            for start, stop, available in _spans(of):
                begin, end = run.second(start), run.second(stop)
                can = "can" if available else "cannot"
                of_kind = bars[available]
                of_kind["base"].append(round(begin, 3))
                of_kind["x"].append(round(end - begin, 3))
                of_kind["y"].append(-row - _MIDDLE[action])
                of_kind["hovertext"].append(
                    f"{topic}-{partition} {can} be {_PAST[action]}\n{begin:.2f} to {end:.2f} s"
                )
                if not available:
                    spoken.append(
                        f"{topic}-{partition} cannot be {_PAST[action]} from {begin:.1f} to "
                        f"{end:.1f} s"
                    )
    lanes = len(labels)
    more = len(run.probed) - lanes
    height = _LANE_HEIGHT * lanes + 40
    return Figure(
        name="availability",
        title="Readable and writable",
        caption="What the probe could do. Upper track: fetch from the leader. Lower track: write "
        "with acks=all." + (f" {more} more partitions are not drawn." if more else ""),
        spoken="; ".join(spoken) + "." if spoken else "Every partition, all the time.",
        height=height,
        keys=(Key(colour="@acked", text="available"), Key(colour="@lost", text="unavailable")),
        traces=[
            {
                "type": "bar",
                "orientation": "h",
                "hoverinfo": "text",
                "width": _TRACK,
                "marker": {"color": _COLOURS[available], "line": {"width": 0}},
                **of_kind,
            }
            for available, of_kind in bars.items()
        ],
        layout=timed_layout(
            run,
            height=height,
            bands=True,
            band_labels=False,
            yaxis=lane_axis(lanes),
            annotations=labels,
            barmode="overlay",
            hovermode="closest",
        ),
    )


def _spans(of: Attempts) -> list[tuple[datetime, datetime, bool]]:
    """Return the whole time of the attempts as periods, each with whether it is available."""
    spans, begin = [], of.begin
    for start, stop in of.outages():
        spans += [(begin, start, True), (start, stop, False)]
        begin = stop
    return [span for span in [*spans, (begin, of.end, True)] if span[0] < span[1]]
