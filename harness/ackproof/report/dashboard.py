"""The dashboard: one page of trends over the runs of a warehouse, that works offline.

Every number is a query over the warehouse's views; the page only draws. Its style sheet, script
and plotly are those of the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import WarehouseError
from ackproof.report import wording
from ackproof.report.html import asset, environment, plotly_js
from ackproof.report.plots.figure import (
    Figure,
    Key,
    broker_colour,
    interval_marks,
    lane_label,
)

if TYPE_CHECKING:
    from ackproof_spark.warehouse.warehouse import Warehouse

#: More runs than these are in the plots, not in the table.
LATEST = 30

_Rows = Sequence[dict[str, Any]]

_ROW = 48
_MARGIN = {"l": 14, "r": 16, "t": 10, "b": 40}

_SELECT = {
    "losses": "SELECT * FROM loss_rates ORDER BY scenario, configuration_name, kafka_version",
    "duplicates": "SELECT * FROM duplicates ORDER BY scenario, configuration_name, kafka_version",
    "recoveries": "SELECT * FROM recovery_times WHERE verified AND recovery_s IS NOT NULL "
    "ORDER BY fault, injected_at",
    "runs": "SELECT run_id, scenario, configuration_name, kafka_version, `commit`, verdict, "
    "reason, acked, lost, duplicated, availability, ack_latency_p99_ms, "
    "date_format(started_at, 'yyyy-MM-dd HH:mm:ss') AS started FROM runs "
    "ORDER BY started_at, run_id",
    "findings": "SELECT r.run_id, r.configuration_name, f.anomaly, f.predicted, f.observed "
    "FROM findings AS f JOIN runs AS r ON f.run_id = r.run_id ORDER BY r.started_at DESC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """What the page shows: rows of the warehouse's views, see `warehouse.analyses`."""

    losses: _Rows
    duplicates: _Rows
    recoveries: _Rows
    runs: _Rows
    findings: _Rows = field(default_factory=tuple)


def read(warehouse: Warehouse) -> Trends:
    """Return what a warehouse has to show; WarehouseError if it holds no run."""
    found = Trends(**{name: warehouse.query(sql) for name, sql in _SELECT.items()})
    if not found.runs:
        raise WarehouseError(
            f"{warehouse.storage.address} holds no run, so there is nothing to draw",
            hint="Load some: ackproof warehouse load RUN_DIR --into WAREHOUSE",
        )
    return found


def write_dashboard(path: Path, trends: Trends, *, title: str) -> None:
    """Write the page to `path`."""
    drawn = figures(trends)
    verdicts = [run["verdict"] for run in trends.runs]
    page = (
        environment()
        .get_template("dashboard.html.j2")
        .render(
            title=title,
            trends=trends,
            latest=list(reversed(trends.runs))[:LATEST],
            tally={word: verdicts.count(word) for word in ("holds", "violated", "inconclusive")},
            drawn=drawn,
            style=asset("report.css"),
            script=asset("report.js"),
            plotly=plotly_js(),
            figures={
                f"trend-{figure.name}": {
                    "data": figure.traces,
                    "layout": figure.layout,
                    "origin": None,
                    "run": None,
                }
                for figure in drawn
            },
        )
    )
    path.write_text(page, encoding="utf-8")


def figures(trends: Trends) -> list[Figure]:
    """Return the plots for which there are numbers, in reading order."""
    colours = {
        name: broker_colour(place)
        for place, name in enumerate(dict.fromkeys(map(_configuration, trends.runs)), start=1)
    }
    made = [
        _losing_runs(trends.losses),
        _losses(trends.losses),
        _over_time(trends.runs, colours, "availability"),
        _over_time(trends.runs, colours, "latency"),
        _recoveries(trends.recoveries, colours),
        _duplicates(trends.duplicates),
    ]
    return [figure for figure in made if figure is not None]


def _configuration(row: dict[str, Any]) -> str:
    """Return what a row is about; the scenario only where the configuration does not say it."""
    name, scenario = row["configuration_name"], row["scenario"]
    return str(name) if scenario in name else f"{scenario}: {name}"


def _label(row: dict[str, Any]) -> str:
    return f"{_configuration(row)}, Kafka {row['kafka_version']}"


def _losing_runs(rows: _Rows) -> Figure | None:
    """Show the share of each configuration's runs that lost anything, with its interval."""
    return _shares(
        rows,
        name="losing-runs",
        title="Runs that lost records",
        caption="Share of conclusive runs, with 95 % Wilson intervals.",
        column="runs_with_loss_share",
        axis="runs, %",
        said=lambda row: f"{row['runs_with_loss']} of {row['runs']} runs lost records",
    )


def _losses(rows: _Rows) -> Figure | None:
    """Show each configuration's share of acked records that were lost, with its interval."""
    return _shares(
        rows,
        name="losses",
        title="Loss rate",
        caption="Acked records that were lost, of all conclusive runs; with 95 % intervals, from "
        "how much runs differ, where two or more lost any.",
        column="lost_share",
        axis="lost, % of acked records",
        said=lambda row: (
            f"{wording.share(row['lost'], row['acked'])} of "
            f"{wording.count(row['acked'])} acked records lost"
        ),
    )


def _shares(
    rows: _Rows,
    *,
    name: str,
    title: str,
    caption: str,
    column: str,
    axis: str,
    said: Callable[[dict[str, Any]], str],
) -> Figure | None:
    """Show a share for each configuration, with its interval where it has one."""
    if not rows:
        return None
    labels, texts = [_label(row) for row in rows], []
    shares, below, above = [], [], []
    for row, label in zip(rows, labels, strict=True):
        share, low, high = (100 * _or(row[f"{column}{end}"], row[column]) for end in _ENDS)
        shares.append(round(share, 5))
        below.append(round(max(share - low, 0.0), 5))
        above.append(round(max(high - share, 0.0), 5))
        known = row[f"{column}_low"] is not None
        texts.append(
            f"{label}: {said(row)}"
            + (f"<br>95 % interval {low:.3g} to {high:.3g} %" if known else "")
        )
    trace = interval_marks(shares, _rows_of(labels), texts, below=below, above=above)
    return Figure(
        name=name,
        title=title,
        caption=caption,
        spoken="; ".join(text.replace("<br>", ", ") for text in texts) + ".",
        height=_height(rows),
        timed=False,
        traces=[trace],
        layout=_by_configuration(labels, title=axis),
    )


_ENDS = ("", "_low", "_high")


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _over_time(runs: _Rows, colours: dict[str, str], what: str) -> Figure | None:
    """Show availability, or p99, of every run by when it began; commits as text."""
    column, title, factor = {
        "availability": ("availability", "Availability", 100.0),
        "latency": ("ack_latency_p99_ms", "Ack latency p99", 1.0),
    }[what]
    shown = [run for run in runs if run[column] is not None]
    if not shown:
        return None
    traces: list[dict[str, Any]] = []
    keys = []
    for name, colour in colours.items():
        mine = [run for run in shown if _configuration(run) == name]
        if not mine:
            continue
        keys.append(Key(colour=colour, text=name))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [run["started"] for run in mine],
                "y": [float(f"{factor * run[column]:.6g}") for run in mine],
                "hovertext": [_hover(run, _value(what, run[column])) for run in mine],
                "hoverinfo": "text",
                "line": {"color": colour, "width": 1.5},
                "marker": {
                    "color": colour,
                    "size": 8,
                    "symbol": ["x" if run["verdict"] == "violated" else "circle" for run in mine],
                },
            }
        )
    low = min(run[column] for run in shown)
    high = max(run[column] for run in shown)
    yaxis: dict[str, Any] = {"ticksuffix": " %", "rangemode": "tozero", "range": [0, 104]}
    if what == "latency":
        ticks = _ticks(low, high)
        yaxis = {
            "type": "log",
            "range": [math.log10(low) - 0.1, math.log10(high) + 0.1],
            "tickvals": ticks,
            "ticktext": [wording.duration(tick) for tick in ticks],
        }
    return Figure(
        name=what,
        title=title,
        caption="Each run by when it began; a cross is a violated run. "
        + (
            "1 less the worst partition's share of time without an ack."
            if what == "availability"
            else "Log scale."
        ),
        spoken=f"{title} of {len(shown)} runs, from {_value(what, low)} to {_value(what, high)}.",
        height=280,
        timed=False,
        keys=tuple(keys),
        traces=traces,
        layout={
            "height": 280,
            "margin": {**_MARGIN, "l": 76},
            "hovermode": "closest",
            "xaxis": {"type": "date", "nticks": 8},
            "yaxis": yaxis,
        },
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two latencies, and a little beyond."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in found if 0.8 * low <= tick <= 1.25 * high]


def _value(what: str, value: float) -> str:
    return f"{100 * value:.2f} %" if what == "availability" else wording.duration(value)


def _hover(run: dict[str, Any], value: str) -> str:
    commit = f"<br>commit {run['commit'][:12]}" if run["commit"] else ""
    return f"{value}, {run['verdict']}<br>{_label(run)}{commit}<br>{run['started']} UTC"


def _recoveries(rows: _Rows, colours: dict[str, str]) -> Figure | None:
    """Show how long each fault took to recover from, once it was healed."""
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["fault"] for row in rows))
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [round(row["recovery_s"], 3) for row in mine],
            "y": [-kinds.index(row["fault"]) for row in mine],
            "hovertext": [
                f"{row['recovery_s']:.2f} s after {row['fault']} of {row['target']}<br>"
                f"{_label(row)}<br>run {row['run_id']}"
                for row in mine
            ],
            "hoverinfo": "text",
            "marker": {"color": colour, "size": 10, "opacity": 0.75},
        }
        for name, colour in colours.items()
        if (mine := [row for row in rows if _configuration(row) == name])
    ]
    shown = {_configuration(row) for row in rows}
    return Figure(
        name="recoveries",
        title="Recovery",
        caption="From a fault's healing until every replica was in sync again; one dot a fault.",
        spoken="; ".join(
            f"{kind}: {min(times):.1f} to {max(times):.1f} s"
            for kind in kinds
            for times in [[row["recovery_s"] for row in rows if row["fault"] == kind]]
        )
        + ".",
        height=_height(kinds),
        timed=False,
        keys=tuple(Key(colour=colours[name], text=name) for name in colours if name in shown),
        traces=traces,
        layout=_by_configuration(kinds, title="seconds"),
    )


def _duplicates(rows: _Rows) -> Figure | None:
    """Show how many records of a million acked stand in the log more than once."""
    if not rows or not any(row["duplicated"] for row in rows):
        return None
    labels = [_label(row) for row in rows]
    texts = [
        f"{label}: {wording.count(row['duplicated'])} of {wording.count(row['acked'])} acked"
        for label, row in zip(labels, rows, strict=True)
    ]
    return Figure(
        name="duplicates",
        title="Duplicates",
        caption="Records that stand in the log more than once, of a million acked.",
        spoken="; ".join(texts) + ".",
        height=_height(rows),
        timed=False,
        traces=[
            {
                "type": "bar",
                "orientation": "h",
                "x": [round(row["duplicated_per_million_acked"], 2) for row in rows],
                "y": _rows_of(labels),
                "hovertext": texts,
                "hoverinfo": "text",
                "width": 0.25,
                "marker": {"color": "@unknown"},
            }
        ],
        layout=_by_configuration(labels, title="duplicated, of a million acked"),
    )


def _height(rows: Sequence[object]) -> int:
    return _ROW * len(rows) + 70


def _rows_of(labels: Sequence[str]) -> list[int]:
    return [-row for row in range(len(labels))]


def _by_configuration(labels: Sequence[str], *, title: str) -> dict[str, Any]:
    """Return the layout of a plot with one row a label, written above it, the first at the top."""
    return {
        "height": _height(labels),
        "margin": _MARGIN,
        "hovermode": "closest",
        "xaxis": {"rangemode": "tozero", "title": {"text": title}, "nticks": 6},
        "yaxis": {
            "range": [0.5 - len(labels), 0.75],
            "tickvals": _rows_of(labels),
            "showticklabels": False,
        },
        "annotations": [lane_label(label, 0.15 - row) for row, label in enumerate(labels)],
    }
