"""The plots of one run. On most of them the x axis is time, and faults are bands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.figure import (
    LANE_HEIGHT,
    MARGIN,
    ROW_HEIGHT,
    Figure,
    Key,
    broker_colour,
    colour,
    lane_axis,
    lane_label,
)
from ackproof.runs.overview import Lane, Losses, LossLane, Mark, Overview, StateSpan, Timeline
from ackproof.runs.verdict import FaultReport

_LABEL_HEIGHT = 14
_MAX_FAULT_ROWS = 30
_MAX_GROUPS = 6

#: The middle of a probe's track below the top of its lane, and the verb of its hover text.
_TRACKS = {"read": (0.48, "read"), "write": (0.76, "written")}
_TRANSACTIONS = {"committed": "acked", "aborted": "failed", "unknown": "unknown"}


def figures(run: Overview, timeline: Timeline | None) -> list[Figure]:
    plots = [
        faults(run),
        rate(run, timeline) if timeline else None,
        timeline_of_states(run),
        availability(run),
        quantiles(run, timeline) if timeline else None,
        loss_map(run.losses) if run.losses else None,
        unread(run, timeline) if timeline else None,
        transactions(run, timeline) if timeline else None,
    ]
    return [figure for figure in plots if figure is not None]


def time_range(run: Overview) -> list[float]:
    """Return start and end of the time axis: the run and its faults, with a small margin."""
    starts = [run.second(window.injected_at) for window in run.windows]
    begin, end = min([0.0, *starts]), max(run.end, 0.1)
    margin = 0.01 * (end - begin)
    return [round(begin - margin, 3), round(end + margin, 3)]


def zoom_range(run: Overview, window: FaultReport) -> list[float]:
    """Return the range of one fault, with a quarter of its duration on each side."""
    start, end = run.second(window.injected_at), _end_of(run, window)
    margin = max(0.25 * (end - start), 0.5)
    lowest, highest = time_range(run)
    return [round(max(lowest, start - margin), 3), round(min(highest, end + margin), 3)]


def _end_of(run: Overview, window: FaultReport) -> float:
    """Return the time of recovery, else of the heal, else the end of the run."""
    last = window.recovered_at or window.healed_at
    return run.second(last) if last else max(run.end, run.second(window.injected_at))


def band_rows(run: Overview) -> list[int]:
    """Return the row of each fault's label above a plot; labels do not overlap."""
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


def _layout(
    run: Overview, height: int, *, bands: bool = True, labelled: bool = True, **more: Any
) -> Any:
    """Return the layout of a plot over the run's time.

    With `bands` faults are bands. With `labelled` their labels are above the plot, which becomes
    higher.
    """
    shapes: list[dict[str, Any]] = []
    annotations = list(more.pop("annotations", ()))
    rows = band_rows(run) if bands else []
    for window, row in zip(run.windows, rows, strict=False):
        start = round(run.second(window.injected_at), 3)
        end = run.second(window.healed_at) if window.healed_at else _end_of(run, window)
        band, edge = colour("fault", 0.1), colour("fault", 0.6)
        shapes += [
            {"type": "rect", "x0": start, "x1": round(end, 3), "fillcolor": band, "line_width": 0},
            {
                "type": "line",
                "x0": start,
                "x1": start,
                "line": {"width": 1, "color": edge, "dash": "dot"},
            },
        ]
        if labelled:
            annotations.append(
                {
                    "xref": "x",
                    "x": start,
                    "yref": "paper",
                    "y": 1,
                    "yshift": row * _LABEL_HEIGHT,
                    "text": fmt.fault(window.window),
                    "font": {"size": 11, "color": colour("fault")},
                }
            )
    above = _LABEL_HEIGHT * (max(rows, default=-1) + 1) if labelled else 0
    return go.Layout(
        height=height + above,
        margin=MARGIN | {"t": MARGIN["t"] + above},
        xaxis={
            "range": time_range(run),
            "ticksuffix": " s",
            "nticks": 9,
            "unifiedhovertitle_text": "%{x:.2f} s",
        },
        shapes=shapes,
        annotations=annotations,
        **{"hovermode": "x unified", **more},
    )


def _bars() -> dict[str, list[Any]]:
    return {"base": [], "x": [], "y": [], "hovertext": []}


def _add_bar(bars: Mapping[str, list[Any]], start: float, end: float, y: float, text: str) -> None:
    bars["base"].append(round(start, 3))
    bars["x"].append(round(max(end - start, 0.0), 3))
    bars["y"].append(y)
    bars["hovertext"].append(text)


def faults(run: Overview) -> Figure | None:
    """Plot every fault as a bar: injected, in force, recovering."""
    shown = run.windows[:_MAX_FAULT_ROWS]
    if not shown:
        return None
    keys = (
        Key(colour="fault", opacity=0.35, text="injected, not yet verified"),
        Key(colour="fault", text="in force"),
        Key(colour="fault", opacity=0.15, text="healed, recovering"),
    )
    phases = {key.text: _bars() for key in keys}
    labels = []
    for row, window in enumerate(shown):
        for key, phase in zip(keys, _phases(run, window), strict=False):
            if phase:
                start, end, what = phase
                text = f"{fmt.fault(window.window)} {what}"
                _add_bar(phases[key.text], start, end, -row - 0.76, text)
        note = "" if window.verified else " · not verified"
        labels.append(
            lane_label(f"{fmt.fault(window.window)} {wording.fault(window)}{note}", -row - 0.46)
        )
    more = len(run.windows) - len(shown)
    return Figure(
        name="faults",
        title="Faults",
        caption="When each fault was injected, in force and recovering."
        + (f" {more} more faults are in the table." if more else ""),
        spoken="; ".join(_spoken_window(run, window) for window in shown[:8]) + ".",
        keys=keys,
        traces=[
            go.Bar(
                **phases[key.text],
                marker_color=colour("fault", None if key.opacity == 1 else key.opacity),
                marker_line={"width": 1, "color": colour("fault")},
            )
            for key in keys
            if phases[key.text]["x"]
        ],
        layout=_layout(
            run,
            ROW_HEIGHT * len(shown) + 40,
            bands=False,
            yaxis=lane_axis(len(shown)),
            annotations=labels,
            hovermode="closest",
        ),
    )


def _phases(run: Overview, window: FaultReport) -> Iterator[tuple[float, float, str] | None]:
    """Yield start, end and description of each phase of the fault; None for a missing phase."""
    injected, end = run.second(window.injected_at), _end_of(run, window)
    healed = run.second(window.healed_at) if window.healed_at else end
    verified = run.second(window.verified_at) if window.verified_at else healed
    never = "" if window.verified_at else ", never verified"
    yield injected, verified, f"injected at {fmt.clock(window.injected_at)} UTC{never}"
    times = f"{fmt.clock(window.verified_at)} to {fmt.clock(window.healed_at)}"
    yield (verified, healed, f"in force from {times} UTC") if window.verified_at else None
    times = f"{fmt.clock(window.healed_at)}, recovered at {fmt.clock(window.recovered_at)}"
    yield (healed, end, f"healed at {times} UTC") if window.healed_at else None


def _spoken_window(run: Overview, window: FaultReport) -> str:
    healed = f"to {run.second(window.healed_at):.1f} s" if window.healed_at else "on, never healed"
    return (
        f"{fmt.fault(window.window)} {wording.fault(window)} from "
        f"{run.second(window.verified_at or window.injected_at):.1f} s {healed}"
        + ("" if window.verified else ", not verified")
    )


def _starts(timeline: Timeline, *, middle: bool = False) -> list[float]:
    shift = 0.5 if middle else 0.0
    return [round((index + shift) * timeline.width, 3) for index in range(len(timeline.acked))]


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.4g}") for value in values]


def _stepped(x: list[float], y: list[Any], name: str, unit: str, role: str, **more: Any) -> Any:
    """Return a line that keeps its value during each bin."""
    return go.Scatter(
        mode="lines",
        x=x,
        y=y,
        line={"color": colour(role), "width": 1.5, "shape": "hv"},
        hovertemplate=f"%{{y:,.0f}}{unit} {name}<extra></extra>",
        **more,
    )


_FROM_ZERO = {"rangemode": "tozero", "tickformat": ",~r", "nticks": 5}


def rate(run: Overview, timeline: Timeline) -> Figure:
    """Plot sends per second by outcome, and lost acked sends."""
    series = [
        ("acked", timeline.acked, "acked", 0.2),
        ("lost", timeline.lost, "acked, but lost", 0.7),
        ("unknown", timeline.unknown, "unknown", 0.0),
        ("failed", timeline.failed, "failed", 0.0),
    ]
    drawn = [entry for entry in series if entry[0] == "acked" or any(entry[1])]
    at = _starts(timeline)
    traces = [
        _stepped(
            at,
            _rounded(number / timeline.width for number in values),
            text,
            "/s",
            role,
            fill="tozeroy" if opacity else "none",
            fillcolor=colour(role, opacity),
        )
        for role, values, text, opacity in drawn
    ]
    acked, lost = np.array(timeline.acked), np.array(timeline.lost)
    # The height of the y axis; the page cuts off bursts, such as clients that catch up.
    height = 2 * np.quantile(acked[acked > 0], 0.9) if acked.any() else 0
    few = np.flatnonzero((lost > 0) & (lost * 50 < height)).tolist()
    if few:
        # A few lost records among thousands are invisible as an area, so they get a tick.
        tick = {"symbol": "line-ns-open", "size": 11, "color": colour("lost"), "line_width": 2}
        traces.append(
            go.Scatter(
                mode="markers",
                x=[at[index] for index in few],
                y=[0] * len(few),
                marker=tick,
                cliponaxis=False,
                hoverinfo="skip",
            )
        )
    untimed = (
        f" {fmt.count(timeline.untimed)} sends have no time and are not drawn."
        if timeline.untimed
        else ""
    )
    return Figure(
        name="rate",
        title="Rate",
        caption="Sends per second by outcome, at the time of the outcome; "
        f"bins of {timeline.width:g} s.{untimed}",
        spoken=_spoken_rate(timeline),
        keys=tuple(Key(colour=role, text=text) for role, _, text, _ in drawn),
        traces=traces,
        follow="usual",
        layout=_layout(run, 230, yaxis=_FROM_ZERO),
    )


def _spoken_rate(timeline: Timeline) -> str:
    width, acked, lost = timeline.width, np.array(timeline.acked), np.array(timeline.lost)
    parts = [
        f"Acked sends per second: median {fmt.number(float(np.median(acked / width)))}, "
        f"highest {fmt.number(float((acked / width).max()))}"
    ]
    filled = np.flatnonzero(acked)
    gaps = np.diff(filled)
    if gaps.size and gaps.max() > 1:
        widest = int(gaps.argmax())
        begin, end = (filled[widest] + 1) * width, filled[widest + 1] * width
        parts.append(f"nothing acked from {begin:.1f} to {end:.1f} s")
    if lost.any():
        where = np.flatnonzero(lost)
        parts.append(
            f"{fmt.count(int(lost.sum()))} acked records were lost, acked between "
            f"{where[0] * width:.1f} and {(where[-1] + 1) * width:.1f} s"
        )
    for name, counts in (("unknown", timeline.unknown), ("failed", timeline.failed)):
        if any(counts):
            parts.append(f"{fmt.count(sum(counts))} sends {name}")
    return "; ".join(parts) + "."


def timeline_of_states(run: Overview) -> Figure | None:
    """Plot each partition as a lane: leader as colour, ISR size as height, epoch as text."""
    if not run.lanes:
        return None
    by_leader: dict[int, dict[str, list[Any]]] = {}
    labels, tracks = [], _bars()
    for row, lane in enumerate(run.lanes):
        floor = -row - 0.96
        labels.append(lane_label(f"{lane.topic}-{lane.partition}", -row - 0.34))
        for span in lane.spans:
            bars = by_leader.setdefault(span.leader, _bars() | {"width": [], "text": []})
            height = 0.6 * (len(span.isr) / lane.replicas if span.leader >= 0 else 1)
            text = _hover_of_span(run, lane, span)
            _add_bar(bars, span.start, span.end, round(floor + height / 2, 4), text)
            bars["width"].append(round(height, 4))
            bars["text"].append(f"epoch {span.epoch}" if span.leader >= 0 else "no leader")
        if lane.spans:
            _add_bar(tracks, lane.spans[0].start, lane.spans[-1].end, floor + 0.3, "")
    hidden = (
        f" {run.hidden_lanes} more partitions, with fewer changes, are not drawn."
        if run.hidden_lanes
        else ""
    )
    return Figure(
        name="timeline",
        title="Leader, epoch and ISR",
        caption="Colour: the leader. Height: the size of the ISR; full height: all replicas."
        + hidden,
        spoken=" ".join(_spoken_lane(lane) for lane in run.lanes),
        keys=tuple(
            Key(colour=broker_colour(leader), text=f"broker {leader}")
            if leader >= 0
            else Key(colour="lost", opacity=0.3, text="no leader")
            for leader in sorted(by_leader)
        ),
        traces=[
            go.Bar(**tracks, width=0.6, marker_color=colour("track"), hoverinfo="skip"),
            *(_leader_bars(leader, bars) for leader, bars in sorted(by_leader.items())),
        ],
        layout=_layout(
            run,
            LANE_HEIGHT * len(run.lanes) + 40,
            labelled=False,
            yaxis=lane_axis(len(run.lanes)),
            annotations=labels,
            hovermode="closest",
            uniformtext={"mode": "hide", "minsize": 10},
        ),
    )


def _leader_bars(leader: int, bars: Mapping[str, list[Any]]) -> Any:
    stripes = {"shape": "/", "fgcolor": colour("lost"), "size": 12, "solidity": 0.06}
    marker: dict[str, Any] = {
        "color": colour("lost", 0.12),
        "line": {"width": 1, "color": colour("lost")},
        "pattern": stripes,
    }
    if leader >= 0:
        edge = {"width": 1, "color": colour("surface")}
        marker = {"color": colour(broker_colour(leader)), "line": edge}
    return go.Bar(
        **bars,
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        insidetextfont_color=colour("ink" if leader < 0 else "on-broker"),
        marker=marker,
    )


def _hover_of_span(run: Overview, lane: Lane, span: StateSpan) -> str:
    start = run.origin + timedelta(seconds=span.start) if run.origin else None
    leader = f"leader {span.leader}" if span.leader >= 0 else "no leader"
    elr = f"\nELR {span.elr}" if span.elr else ""
    return (
        f"{lane.topic}-{lane.partition}: {leader}, epoch {span.epoch}"
        f"\nISR {span.isr} of {lane.replicas} replicas{elr}"
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


def availability(run: Overview) -> Figure | None:
    """Plot each partition as a lane: the upper track is reading, the lower one writing."""
    if not run.probed:
        return None
    bars = {True: _bars(), False: _bars()}
    labels, spoken = [], []
    for row, probed in enumerate(run.probed):
        partition = f"{probed.topic}-{probed.partition}"
        labels.append(lane_label(f"{partition}: read, write", -row - 0.34))
        for action, spans in probed.tracks.items():
            middle, done = _TRACKS[action]
            for span in spans:
                can = f"{partition} {'can' if span.available else 'cannot'} be {done}"
                text = f"{can}\n{span.start:.2f} to {span.end:.2f} s"
                _add_bar(bars[span.available], span.start, span.end, -row - middle, text)
                if not span.available:
                    spoken.append(f"{can} from {span.start:.1f} to {span.end:.1f} s")
    hidden = f" {run.hidden_probed} more partitions are not drawn." if run.hidden_probed else ""
    return Figure(
        name="availability",
        title="Readable and writable",
        caption="What the probe could do. Upper track: fetch from the leader. Lower track: write "
        f"with acks=all.{hidden}",
        spoken="; ".join(spoken) + "." if spoken else "Every partition, all the time.",
        keys=(Key(colour="acked", text="available"), Key(colour="lost", text="unavailable")),
        traces=[
            go.Bar(**bars[available], width=0.24, marker_color=colour(role))
            for available, role in ((True, "acked"), (False, "lost"))
        ],
        layout=_layout(
            run,
            LANE_HEIGHT * len(labels) + 40,
            labelled=False,
            yaxis=lane_axis(len(labels)),
            annotations=labels,
            hovermode="closest",
        ),
    )


def quantiles(run: Overview, timeline: Timeline) -> Figure | None:
    """Plot median, 99th percentile and maximum of the ack latency on a log scale."""
    longest = [(value, at) for at, value in enumerate(timeline.longest) if value is not None]
    if not longest:
        return None
    line = {"mode": "lines", "line_width": 1.75}
    lines = (
        ("longest", "longest", timeline.longest, {"mode": "markers", "marker_size": 3.5}),
        ("p99", "p99", timeline.p99, line),
        ("p50", "median", timeline.p50, line),
    )
    slowest, at = max(longest, key=lambda point: point[0])
    typical = np.median([value for value in timeline.p50 if value is not None])
    highest = max(value for value in timeline.p99 if value is not None)
    return Figure(
        name="quantiles",
        title="Ack latency",
        caption=f"By time of the send; log scale; bins of {timeline.width:g} s. Median and p99 "
        "have an error of up to 1 %, the longest is exact.",
        spoken=f"Typical median of acked sends: {fmt.number(float(typical))} ms; "
        f"highest p99 {fmt.number(highest)} ms; the longest, {fmt.number(slowest)} ms, of a send "
        f"at {at * timeline.width:.1f} s.",
        keys=[Key(colour=role, text=text) for role, text, *_ in reversed(lines)],
        traces=[
            go.Scatter(
                x=_starts(timeline, middle=True),
                y=_rounded(values),
                text=["" if value is None else fmt.duration(value) for value in values],
                hovertemplate=f"%{{text}} {text}<extra></extra>",
                marker_color=colour(role),
                line_color=colour(role),
                **style,
            )
            for role, text, values, style in lines
        ],
        follow="log",
        layout=_layout(run, 230, yaxis_type="log"),
    )


def loss_map(losses: Losses) -> Figure | None:
    """Plot the acked offsets of lost records in each partition."""
    if not losses.lanes:
        return None
    labels, track, marks = [], _bars(), _bars()
    for row, lane in enumerate(losses.lanes):
        y = -row - 0.76
        labels.append(lane_label(_loss_label(lane), -row - 0.46))
        _add_bar(track, 0, lane.log_end or lane.end, y, "")
        for mark in lane.marks:
            _add_bar(marks, mark.first, mark.last + 1, y, _hover_of_mark(lane, mark))
    by = {lane.by for lane in losses.lanes}
    title = "acked offset" if "offset" in by else "producer's sequence"
    if len(by) > 1:
        title = "acked offset, or sequence without an offset"
    end = max(lane.end for lane in losses.lanes)
    hidden = (
        f" {losses.hidden_lanes} more lanes with {fmt.count(losses.hidden_count)} lost records "
        "are not drawn."
        if losses.hidden_lanes
        else ""
    )
    without_offset = (
        " With acks=0 the broker returns no offset; the position of these lost records is their "
        "producer's sequence."
        if "sequence" in by
        else ""
    )
    keys = (Key(colour="track", text="final log"), Key(colour="lost", text="lost"))
    return Figure(
        name="loss-map",
        title="Loss map",
        caption=f"Lost records by {title}; adjacent records share a mark.{without_offset}{hidden}",
        spoken="; ".join(_loss_label(lane) + _spoken_extent(lane) for lane in losses.lanes) + ".",
        timed=False,
        keys=keys if "offset" in by else keys[1:],
        traces=[
            go.Bar(**track, hoverinfo="skip", marker_color=colour("track")),
            go.Bar(
                **marks,
                marker_color=colour("lost"),
                marker_line={"width": 1.5, "color": colour("lost")},
            ),
        ],
        layout=go.Layout(
            height=ROW_HEIGHT * len(losses.lanes) + 56,
            margin={**MARGIN, "l": 14, "b": 44},
            xaxis={
                "range": [-0.01 * end, 1.01 * end],
                "tickformat": ",~r",
                "nticks": 6,
                "title_text": title,
            },
            yaxis=lane_axis(len(losses.lanes)),
            annotations=labels,
        ),
    )


def _loss_label(lane: LossLane) -> str:
    producer = "" if lane.producer is None else f", producer {lane.producer}"
    return f"{lane.topic}-{lane.partition}{producer}: {fmt.count(lane.count)} lost"


def _spoken_extent(lane: LossLane) -> str:
    first, last = lane.marks[0].first, lane.marks[-1].last
    return f", {lane.by} {fmt.count(first)}" + (f" to {fmt.count(last)}" if last > first else "")


def _hover_of_mark(lane: LossLane, mark: Mark) -> str:
    if mark.first == mark.last:
        return f"lost: {lane.by} {fmt.count(mark.first)}"
    extent = f"{fmt.count(mark.first)} to {fmt.count(mark.last)}"
    return f"{fmt.count(mark.count)} lost: {lane.by}s {extent}"


def unread(run: Overview, timeline: Timeline) -> Figure | None:
    """Plot how many acked offsets each consumer group has not read yet."""
    drawn = dict(list(timeline.unread.items())[:_MAX_GROUPS])
    if not drawn:
        return None
    more = len(timeline.unread) - len(drawn)
    return _clients(
        run,
        timeline,
        name="unread",
        title="Acked, not read yet",
        caption="Acked offsets that the consumers of a group have not read yet, in all partitions; "
        f"bins of {timeline.width:g} s. Offsets that remain at the end were lost or never read."
        + (f" {more} more groups are not drawn." if more else ""),
        spoken="; ".join(
            f"group {group}: at most {fmt.count(max(values))} behind, "
            f"{fmt.count(values[-1])} at the end"
            for group, values in drawn.items()
        )
        + ".",
        lines={
            group: (broker_colour(number), values)
            for number, (group, values) in zip(count(1), drawn.items(), strict=False)
        },
    )


def transactions(run: Overview, timeline: Timeline) -> Figure | None:
    """Plot the cumulative number of ended transactions by outcome; a plateau is a standstill."""
    drawn = {outcome: values for outcome, values in timeline.transactions.items() if any(values)}
    if not drawn:
        return None
    untimed = timeline.untimed_transactions
    note = f" No end is known of {fmt.count(untimed)} more." if untimed else ""
    return _clients(
        run,
        timeline,
        name="transactions",
        title="Transactions",
        caption=f"Ended transactions by outcome, cumulative; bins of {timeline.width:g} s.{note}",
        spoken=", ".join(f"{fmt.count(sum(values))} {outcome}" for outcome, values in drawn.items())
        + f".{note}",
        lines={
            outcome: (_TRANSACTIONS[outcome], np.cumsum(values).tolist())
            for outcome, values in drawn.items()
        },
    )


def _clients(
    run: Overview,
    timeline: Timeline,
    *,
    lines: Mapping[str, tuple[str, Sequence[int]]],
    **texts: Any,
) -> Figure:
    """Plot stepped lines over the run's time; `lines` are colours and values by name."""
    at = _starts(timeline)
    return Figure(
        **texts,
        keys=tuple(Key(colour=role, text=line) for line, (role, _) in lines.items()),
        traces=[
            _stepped(at, list(values), line, "", role) for line, (role, values) in lines.items()
        ],
        follow="all",
        layout=_layout(run, 190, yaxis=_FROM_ZERO),
    )
