"""The plots of one run as plotly figures, with what they say in words.

Colours are roles (`@acked`, `@broker2/0.3` with an opacity), not values: the page's script puts
in those of its style sheet, so that plots follow the light and the dark scheme. Names follow
the field's: rate, quantiles, timeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ackproof.harness.report import words
from ackproof.harness.report.data import Floats, Lane, Losses, LossLane, Numbers, Run, Sends
from ackproof.harness.verdict import FaultReport

#: More faults than these are in the table, not in the plot.
MAX_FAULT_ROWS = 30
_BROKER_COLOURS = 8
_LANE_HEIGHT = 46
_FAULT_HEIGHT = 34
_LABEL_HEIGHT = 14
_MARGIN = {"l": 52, "r": 14, "t": 10, "b": 30}


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


def figures(run: Run) -> list[Figure]:
    """Return the plots for which the run has data, in reading order."""
    made = [
        faults(run),
        rate(run, run.sends) if run.sends else None,
        timeline(run),
        quantiles(run, run.sends) if run.sends else None,
        loss_map(run.losses) if run.losses else None,
    ]
    return [figure for figure in made if figure is not None]


def time_range(run: Run) -> list[float]:
    """Return where the time axis begins and ends: the run and its faults, with a little air."""
    starts = [run.second(window.injected_at) for window in run.windows]
    begin, end = min(0.0, *starts, 0.0), max(run.end, 0.1)
    air = 0.01 * (end - begin)
    return [round(begin - air, 3), round(end + air, 3)]


def zoom_range(run: Run, window: FaultReport) -> list[float]:
    """Return the stretch of time that shows one fault whole, with a quarter of it on each side."""
    start, end = run.second(window.injected_at), _end_of(run, window)
    air = max(0.25 * (end - start), 0.5)
    lowest, highest = time_range(run)
    return [round(max(lowest, start - air), 3), round(min(highest, end + air), 3)]


def faults(run: Run) -> Figure | None:
    """Show every fault as a bar: injected, in force, recovering."""
    shown = run.windows[:MAX_FAULT_ROWS]
    if not shown:
        return None
    phases: dict[str, dict[str, list[Any]]] = {
        colour: {"base": [], "x": [], "y": [], "hovertext": []}
        for colour in ("@fault/0.35", "@fault", "@fault/0.15")
    }
    labels = []
    for row, window in enumerate(shown):
        y = -row - 0.76
        for colour, start, end, what in _phases(run, window):
            phases[colour]["base"].append(round(start, 3))
            phases[colour]["x"].append(round(max(end - start, 0.0), 3))
            phases[colour]["y"].append(y)
            phases[colour]["hovertext"].append(f"F{window.window} {what}")
        note = "" if window.verified else " · not verified"
        labels.append(
            lane_label(
                f"F{window.window} {window.fault} of {words.brokers(window.nodes)}{note}",
                -row - 0.46,
            )
        )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "width": 0.3,
            "hoverinfo": "text",
            "marker": {"color": colour, "line": {"width": 1, "color": "@fault"}},
            **phase,
        }
        for colour, phase in phases.items()
        if phase["x"]
    ]
    more = len(run.windows) - len(shown)
    return Figure(
        name="faults",
        title="Faults",
        caption="When each fault really held."
        + (f" {more} more are in the table." if more else ""),
        spoken="; ".join(_spoken_window(run, window) for window in shown[:8]) + ".",
        height=_FAULT_HEIGHT * len(shown) + 40,
        keys=(
            Key(colour="@fault/0.35", text="injected, not yet verified"),
            Key(colour="@fault", text="in force"),
            Key(colour="@fault/0.15", text="healed, recovering"),
        ),
        traces=traces,
        layout=timed_layout(
            run,
            height=_FAULT_HEIGHT * len(shown) + 40,
            yaxis=_lane_axis(len(shown)),
            annotations=labels,
            barmode="overlay",
            hovermode="closest",
        ),
    )


def _end_of(run: Run, window: FaultReport) -> float:
    last = window.recovered_at or window.healed_at
    return run.second(last) if last else max(run.end, run.second(window.injected_at))


def _phases(run: Run, window: FaultReport) -> list[tuple[str, float, float, str]]:
    """Return (colour, start, end, description) of each phase that the fault went through."""
    injected, end = run.second(window.injected_at), _end_of(run, window)
    healed = run.second(window.healed_at) if window.healed_at else end
    verified = run.second(window.verified_at) if window.verified_at else healed
    found = [
        (
            "@fault/0.35",
            injected,
            verified,
            f"injected at {words.clock(window.injected_at)} UTC"
            + ("" if window.verified_at else ", never seen to hold"),
        )
    ]
    if window.verified_at:
        found.append(
            (
                "@fault",
                verified,
                healed,
                f"in force from {words.clock(window.verified_at)} to "
                f"{words.clock(window.healed_at)} UTC",
            )
        )
    if window.healed_at:
        found.append(
            (
                "@fault/0.15",
                healed,
                end,
                f"healed at {words.clock(window.healed_at)}, recovered at "
                f"{words.clock(window.recovered_at)} UTC",
            )
        )
    return found


def _spoken_window(run: Run, window: FaultReport) -> str:
    healed = f"to {run.second(window.healed_at):.1f} s" if window.healed_at else "on, never healed"
    return (
        f"F{window.window} {window.fault} of {words.brokers(window.nodes)} from "
        f"{run.second(window.verified_at or window.injected_at):.1f} s {healed}"
        + ("" if window.verified else ", not verified")
    )


def rate(run: Run, sends: Sends) -> Figure:
    """Show sends per second by outcome, and those acked that were lost."""
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
            "y": _numbers(values / sends.width),
            "line": {"color": colour, "width": 1.5, "shape": "hv"},
            "hovertemplate": f"%{{y:,.0f}}/s {text}<extra></extra>",
            "fill": "tozeroy" if opacity else "none",
            "fillcolor": f"{colour}/{opacity}",
        }
        for colour, values, text, opacity in drawn
    ]
    where = np.flatnonzero((sends.lost > 0) & (sends.lost * 50 < sends.acked.max())).tolist()
    if where:
        # Three lost among thousands would not show as an area: a tick across the axis does.
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
        f" {words.count(sends.untimed)} sends without any time are not drawn."
        if sends.untimed
        else ""
    )
    return Figure(
        name="rate",
        title="Rate",
        caption="Sends per second, by when their outcome became known; "
        f"bins of {sends.width:g} s.{untimed}",
        spoken=_spoken_rate(sends),
        height=230 + band_height(run),
        keys=tuple(Key(colour=colour, text=text) for colour, _, text, _ in drawn),
        traces=traces,
        layout=timed_layout(
            run,
            height=230 + band_height(run),
            bands=True,
            yaxis={"rangemode": "tozero", "tickformat": ",~r", "nticks": 5},
        ),
    )


def _spoken_rate(sends: Sends) -> str:
    per_second = sends.acked / sends.width
    said = [
        f"Acked sends per second: median {words.number(float(np.median(per_second)))}, "
        f"highest {words.number(float(per_second.max()))}"
    ]
    gap = _longest_gap(sends.acked)
    if gap:
        said.append(
            f"nothing acked from {gap[0] * sends.width:.1f} to {gap[1] * sends.width:.1f} s"
        )
    if sends.lost.any():
        where = np.flatnonzero(sends.lost)
        said.append(
            f"{words.count(int(sends.lost.sum()))} acked records were lost, acked between "
            f"{where[0] * sends.width:.1f} and {(where[-1] + 1) * sends.width:.1f} s"
        )
    for name, counts in (("unknown", sends.unknown), ("failed", sends.failed)):
        if counts.any():
            said.append(f"{words.count(int(counts.sum()))} sends {name}")
    return "; ".join(said) + "."


def _longest_gap(acked: Numbers) -> tuple[int, int] | None:
    """Return the longest run of bins without an ack, between the first ack and the last."""
    filled = np.flatnonzero(acked)
    if filled.size < 2:
        return None
    gaps = np.diff(filled)
    widest = int(gaps.argmax())
    return (int(filled[widest]) + 1, int(filled[widest + 1])) if gaps[widest] > 1 else None


def timeline(run: Run) -> Figure | None:
    """Show each partition as a lane: leader as colour, ISR size as height, epoch as text."""
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
        caption="Colour: the leader. Height: the ISR's size, full when all replicas are in it."
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
            yaxis=_lane_axis(len(run.lanes)),
            annotations=labels,
            barmode="overlay",
            hovermode="closest",
            uniformtext={"mode": "hide", "minsize": 10},
        ),
    )


def broker_colour(broker: int) -> str:
    """Return the colour that stands for a broker on the whole page."""
    return f"@broker{(broker - 1) % _BROKER_COLOURS + 1}"


def _hover_of_span(run: Run, lane: Lane, span: Any) -> str:
    from datetime import timedelta

    start = run.origin + timedelta(seconds=span.start) if run.origin else None
    leader = f"leader {span.leader}" if span.leader >= 0 else "no leader"
    elr = f"<br>ELR {list(span.elr)}" if span.elr else ""
    return (
        f"{lane.topic}-{lane.partition}: {leader}, epoch {span.epoch}"
        f"<br>ISR {list(span.isr)} of {lane.replicas} replicas{elr}"
        f"<br>from {span.start:.2f} to {span.end:.2f} s ({words.clock(start)} UTC)"
    )


def _spoken_lane(lane: Lane) -> str:
    said = [
        (f"leader {span.leader}" if span.leader >= 0 else "no leader")
        + f", epoch {span.epoch}, ISR of {len(span.isr)} from {span.start:.1f} s"
        for span in lane.spans[:10]
    ]
    more = f", and {len(lane.spans) - 10} more changes" if len(lane.spans) > 10 else ""
    return f"{lane.topic}-{lane.partition}: {'; '.join(said)}{more}."


def quantiles(run: Run, sends: Sends) -> Figure | None:
    """Show ack latency by time: median, 99th percentile and longest, on a log scale."""
    if not np.isfinite(sends.maximum).any():
        return None
    low = math.log10(max(float(np.nanmin(sends.minimum)), 1e-3))
    high = math.log10(max(float(np.nanmax(sends.maximum)), 1e-3))
    decades = range(math.floor(low), math.ceil(high) + 1)
    at = bin_starts(sends, middle=True)

    def line(values: Floats, text: str, **style: Any) -> dict[str, Any]:
        return {
            "type": "scatter",
            "x": at,
            "y": _numbers(values),
            "text": [words.duration(v) if math.isfinite(v) else "" for v in values.tolist()],
            "hovertemplate": f"%{{text}} {text}<extra></extra>",
            **style,
        }

    height = 230 + band_height(run)
    return Figure(
        name="quantiles",
        title="Ack latency",
        caption=f"By when sent; log scale; bins of {sends.width:g} s. Median and p99 are within "
        "1 %, the longest is exact.",
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
        layout=timed_layout(
            run,
            height=height,
            bands=True,
            yaxis={
                "type": "log",
                "range": [low - 0.15, high + 0.15],
                "tickvals": [10.0**decade for decade in decades],
                "ticktext": [_tick(decade) for decade in decades],
            },
        ),
    )


def _tick(decade: int) -> str:
    return f"{10 ** (decade - 3):,} s" if decade >= 3 else f"{10.0**decade:g} ms"


def _spoken_quantiles(sends: Sends) -> str:
    worst = int(np.nanargmax(sends.maximum))
    return (
        f"Median of acked sends: {words.number(float(np.nanmedian(sends.p50)))} ms in the middle "
        f"of the run; p99 at worst {words.number(float(np.nanmax(sends.p99)))} ms; the longest, "
        f"{words.number(float(sends.maximum[worst]))} ms, of a send at {worst * sends.width:.1f} s."
    )


def loss_map(losses: Losses) -> Figure | None:
    """Show where in each partition the lost records stood when they were acked."""
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
        title = "acked offset, or sequence where no offset was told"
    end = max(lane.end for lane in losses.lanes)
    height = _FAULT_HEIGHT * len(losses.lanes) + 56
    hidden = (
        f" {losses.hidden_lanes} more lanes with {words.count(losses.hidden_count)} lost records "
        "are not drawn."
        if losses.hidden_lanes
        else ""
    )
    untold = (
        " With acks=0 the broker tells no offset: there, lost records stand by their producer's "
        "sequence."
        if "sequence" in kinds
        else ""
    )
    bar = {"type": "bar", "orientation": "h"}
    return Figure(
        name="loss-map",
        title="Loss map",
        caption=f"Lost records by {title}; neighbours are drawn as one mark.{untold}{hidden}",
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
            "margin": {**_MARGIN, "l": 14, "b": 44},
            "barmode": "overlay",
            "hovermode": "closest",
            "xaxis": {
                "range": [-0.01 * end, 1.01 * end],
                "tickformat": ",~r",
                "nticks": 6,
                "title": {"text": title},
            },
            "yaxis": _lane_axis(len(losses.lanes)),
            "annotations": labels,
        },
    )


def _loss_label(lane: LossLane) -> str:
    whose = "" if lane.producer is None else f", producer {lane.producer}"
    return f"{lane.topic}-{lane.partition}{whose}: {words.count(lane.count)} lost"


def _spoken_extent(lane: LossLane) -> str:
    first, last = lane.marks[0].first, lane.marks[-1].last
    return f", {lane.by} {words.count(first)}" + (
        f" to {words.count(last)}" if last > first else ""
    )


def _hover_of_mark(lane: LossLane, first: int, last: int, count: int) -> str:
    if first == last:
        return f"lost: {lane.by} {words.count(first)}"
    return f"{words.count(count)} lost: {lane.by}s {words.count(first)} to {words.count(last)}"


def bin_starts(sends: Sends, *, middle: bool = False) -> list[float]:
    """Return where each bin begins, or its middle, in seconds."""
    shift = 0.5 if middle else 0.0
    return [round((index + shift) * sends.width, 3) for index in range(sends.acked.size)]


def _numbers(values: Floats) -> list[float | None]:
    """Return values as JSON has them: four digits, null for what is not there."""
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]


def _lane_axis(rows: int) -> dict[str, Any]:
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


def _band_rows(run: Run) -> list[int]:
    """Return the row of each fault's label above a plot, so that close ones do not overlap."""
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
    """Return how high the faults' labels above a plot are."""
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
    """Return the layout of a plot over the run's time, with the faults as bands behind it."""
    shapes, labels = [], list(annotations)
    if bands:
        for window, row in zip(run.windows, _band_rows(run), strict=True):
            start, end = run.second(window.injected_at), _end_of(run, window)
            healed = run.second(window.healed_at) if window.healed_at else end
            shapes.append(
                {
                    "type": "rect",
                    "layer": "below",
                    "xref": "x",
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                    "x0": round(start, 3),
                    "x1": round(healed, 3),
                    "line": {"width": 0},
                    "fillcolor": "@fault/0.1",
                }
            )
            shapes.append(
                {
                    "type": "line",
                    "layer": "below",
                    "xref": "x",
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
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
                        "text": f"F{window.window}",
                        "borderpad": 0,
                        "font": {"size": 11, "color": "@fault"},
                    }
                )
    top = _MARGIN["t"] + (band_height(run) if bands and band_labels else 0)
    return {
        "height": height,
        "margin": {**_MARGIN, "t": top},
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
