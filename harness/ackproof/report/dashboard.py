"""The dashboard: an HTML page of trends from the warehouse's views. It works offline."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from ackproof.errors import WarehouseError
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.figure import (
    BROKER_COLOURS,
    Figure,
    Interval,
    Key,
    broker_colour,
    colour,
    intervals,
    lane_label,
)
from ackproof.report.html import write_page
from ackproof.report.wording import AS_EXPECTED
from ackproof.runs.verdict import Word

if TYPE_CHECKING:
    from ackproof_spark.warehouse.warehouse import Warehouse

#: Maximum number of runs in the table; the plots have all.
LATEST = 30

_SELECT = {
    "losses": "SELECT * FROM loss_rates ORDER BY scenario, configuration, kafka_version",
    "duplicates": "SELECT * FROM duplicates ORDER BY scenario, configuration, kafka_version",
    "redeliveries": "SELECT * FROM redeliveries "
    "ORDER BY scenario, configuration, kafka_version, consumer_group",
    "recoveries": "SELECT * FROM recovery_times WHERE verified AND recovery_s IS NOT NULL "
    "AND fault <> 'none' ORDER BY fault, injected_at",
    "causes": "SELECT * FROM loss_causes "
    "ORDER BY scenario, configuration, kafka_version, runs DESC, case_id",
    "runs": "SELECT run_id, scenario, configuration, kafka_version, commit_id, verdict, "
    "reason, outcome, report, acked, lost, duplicated, availability, ack_latency_p99_ms, "
    "date_format(started_at, 'yyyy-MM-dd HH:mm:ss') AS started FROM runs "
    "ORDER BY started_at, run_id",
    "findings": "SELECT r.run_id, r.configuration, r.report, f.anomaly, f.predicted, "
    "f.observed_count FROM findings AS f JOIN runs AS r ON f.run_id = r.run_id "
    "ORDER BY r.started_at DESC",
}

_Rows = Sequence[dict[str, Any]]

_ROW = 48
_MARGIN = {"l": 14, "r": 16, "t": 10, "b": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    losses: _Rows
    duplicates: _Rows
    recoveries: _Rows
    runs: _Rows
    findings: _Rows = field(default_factory=tuple)
    causes: _Rows = field(default_factory=tuple)
    redeliveries: _Rows = field(default_factory=tuple)


def read(warehouse: Warehouse) -> Trends:
    """Query a warehouse. Raises WarehouseError if it contains no runs."""
    trends = Trends(**warehouse.queries(_SELECT))
    if not trends.runs:
        raise WarehouseError(
            f"{warehouse.storage.address} contains no runs",
            hint="Load runs first: ackproof warehouse load RUN_DIR --into WAREHOUSE",
        )
    return trends


def write_dashboard(path: Path, trends: Trends, *, title: str) -> None:
    expected = [AS_EXPECTED[Word(run["verdict"])] for run in trends.runs]
    drawn = figures(trends)
    colours = _colours(trends.runs)
    counted = {_label(row) for row in trends.losses}
    write_page(
        path,
        "dashboard.html.j2",
        {f"trend-{figure.name}": (figure, None) for figure in drawn},
        title=title,
        trends=trends,
        latest=list(reversed(trends.runs))[:LATEST],
        tally={
            "with loss": sum(run["lost"] > 0 for run in trends.runs),
            "not as expected": expected.count("no"),
            "undecided": expected.count("undecided"),
        },
        drawn=drawn,
        duplicated={_label(row): row for row in trends.duplicates},
        only_duplicated=[row for row in trends.duplicates if _label(row) not in counted],
        label=_label,
        configurations={_key(run): colours[_configuration(run)] for run in trends.runs},
        key=_key,
    )


def figures(trends: Trends) -> list[Figure]:
    colours = _colours(trends.runs)
    plots = [
        _losing_runs(trends.losses),
        _causes(trends.causes),
        _over_time(trends.runs, colours, "availability"),
        _over_time(trends.runs, colours, "latency"),
        _recoveries(trends.recoveries, colours),
    ]
    return [figure for figure in plots if figure is not None]


def _colours(runs: _Rows) -> dict[str, Key]:
    """Return the colour of each configuration; when all are in use, they become paler."""
    names = dict.fromkeys(map(_configuration, runs))
    return {
        name: Key(
            colour=broker_colour(number),
            text=name,
            opacity=0.45 ** ((number - 1) // BROKER_COLOURS),
        )
        for number, name in enumerate(names, start=1)
    }


def _configuration(row: dict[str, Any]) -> str:
    """Return the configuration's name, after the scenario's unless it contains that."""
    name, scenario = row["configuration"], row["scenario"]
    return str(name) if scenario in name else f"{scenario}: {name}"


def _key(row: dict[str, Any]) -> str:
    """Return what identifies the configuration in the page's filter."""
    return f"{zlib.crc32(_configuration(row).encode()):08x}"


def _label(row: dict[str, Any]) -> str:
    return f"{_configuration(row)}, {wording.kafka(row['kafka_version'])}"


def _losing_runs(rows: _Rows) -> Figure | None:
    """Plot the share of runs that lost, with its interval, for each configuration."""
    if not rows:
        return None
    shown = []
    for row in rows:
        share, low, high = (
            100 * row[f"runs_with_loss_share{end}"] for end in ("", "_low", "_high")
        )
        text = (
            f"{_label(row)}: {row['runs_with_loss']} of {row['runs']} runs lost records\n"
            f"95 % interval {fmt.about(low / 100)} to {fmt.about(high / 100)}"
        )
        shown.append(Interval(label=_label(row), text=text, share=share, low=low, high=high))
    keys = list(map(_key, rows))
    figure = intervals(
        shown,
        _by_row([row.label for row in shown], title="runs, %", keys=keys),
        name="losing-runs",
        title="Runs that lost records",
        caption="Share of runs, with 95 % intervals; inconclusive runs count if they lost.",
    )
    figure.traces[0].meta = keys
    return figure


def _causes(rows: _Rows) -> Figure | None:
    if not rows:
        return None
    labels = list(dict.fromkeys(map(_label, rows)))
    cases = list(dict.fromkeys(row["case_id"] for row in rows))
    titles = {row["case_id"]: row["title"] for row in rows}
    texts = {
        (_label(row), row["case_id"]): f"{_label(row)}: {fmt.count(row['lost'])} records in "
        f"{fmt.plural(row['runs'], 'run')}, {row['title']} ({row['case_id']})"
        for row in rows
    }
    colours = {case: broker_colour(number) for number, case in enumerate(cases, start=1)}
    return Figure(
        name="causes",
        title="Why records were lost",
        caption="Runs that lost records, by cause; a run with two causes counts twice.",
        spoken="; ".join(texts.values()) + ".",
        timed=False,
        keys=tuple(Key(colour=colours[case], text=f"{titles[case]} ({case})") for case in cases),
        traces=[
            go.Bar(
                x=[row["runs"] for row in own],
                y=[-labels.index(_label(row)) for row in own],
                hovertext=[texts[_label(row), case] for row in own],
                marker_color=colour(colours[case]),
                meta=list(map(_key, own)),
                customdata=[row["example_report"] for row in own],
            )
            for case in cases
            for own in [[row for row in rows if row["case_id"] == case]]
        ],
        layout=go.Layout(
            height=_ROW * len(labels) + _MARGIN["t"] + _MARGIN["b"],
            margin=_MARGIN,
            barmode="stack",
            meta=list({_label(row): _key(row) for row in rows}.values()),
            xaxis={
                "rangemode": "tozero",
                "tickformat": ",d",
                "dtick": _whole_step(rows),
                "title_text": "runs",
            },
            yaxis={"visible": False, "range": [-len(labels) + 0.4, 0.6]},
            annotations=[lane_label(label, -number + 0.18) for number, label in enumerate(labels)],
        ),
    )


def _whole_step(rows: _Rows) -> int:
    """Return a step of at least one run between ticks, for at most seven of them."""
    by_label: Counter[str] = Counter()
    for row in rows:
        by_label[_label(row)] += row["runs"]
    most = max(by_label.values(), default=1)
    step = 1
    while most > 6 * step:
        step *= 10
    return next(part for part in (step // 5, step // 2, step) if part > 0 and most <= 6 * part)


def _over_time(runs: _Rows, colours: dict[str, Key], what: str) -> Figure | None:
    column, title, factor = {
        "availability": ("availability", "Availability", 100.0),
        "latency": ("ack_latency_p99_ms", "Ack latency p99", 1.0),
    }[what]
    shown = [run for run in runs if run[column] is not None]
    if not shown:
        return None
    drawn = [
        (key, own)
        for name, key in colours.items()
        if (own := [run for run in shown if _configuration(run) == name])
    ]
    low = min(run[column] for run in shown)
    high = max(run[column] for run in shown)
    yaxis: dict[str, Any] = {"ticksuffix": " %", "rangemode": "tozero", "range": [0, 104]}
    if what == "latency":
        ticks = _ticks(low, high)
        yaxis = {
            "type": "log",
            "range": [math.log10(low) - 0.1, math.log10(high) + 0.1],
            "tickvals": ticks,
            "ticktext": [fmt.duration(tick) for tick in ticks],
        }
    return Figure(
        name=what,
        title=title,
        caption=(
            "Share of the time in which the worst partition acked. "
            if what == "availability"
            else "Log scale. "
        )
        + "A cross is a violated run; a click opens the run.",
        spoken=f"{title} of {len(shown)} runs, from {_value(what, low)} to {_value(what, high)}.",
        timed=False,
        keys=[key for key, _ in drawn],
        traces=[
            go.Scatter(
                mode="lines+markers",
                x=[run["started"] for run in own],
                y=[float(f"{factor * run[column]:.6g}") for run in own],
                hovertext=[_hover(run, _value(what, run[column])) for run in own],
                hoverinfo="text",
                meta=list(map(_key, own)),
                customdata=[run["report"] for run in own],
                line_color=colour(key.colour, key.opacity),
                marker={
                    "color": colour(key.colour, key.opacity),
                    "size": 8,
                    "symbol": ["x" if run["verdict"] == "violated" else "circle" for run in own],
                },
            )
            for key, own in drawn
        ],
        layout=go.Layout(
            height=280,
            margin={**_MARGIN, "l": 76},
            xaxis={"type": "date", "nticks": 4, "tickangle": 0},
            yaxis=yaxis,
        ),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten, from slightly below `low` to above `high`."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in ticks if 0.8 * low <= tick <= 1.25 * high]


def _value(what: str, value: float) -> str:
    return f"{100 * value:.1f} %" if what == "availability" else fmt.duration(value)


def _hover(run: dict[str, Any], value: str) -> str:
    commit = f"\ncommit {run['commit_id'][:12]}" if run["commit_id"] else ""
    return f"{value}, {run['verdict']}\n{_label(run)}{commit}\n{run['started']} UTC"


def _recoveries(rows: _Rows, colours: dict[str, Key]) -> Figure | None:
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["fault"] for row in rows))
    traces = [
        go.Scatter(
            mode="markers",
            x=[round(row["recovery_s"], 3) for row in own],
            y=[-kinds.index(row["fault"]) for row in own],
            hovertext=[
                f"{row['recovery_s']:.2f} s after {row['fault']} of {row['target']}\n"
                f"{_label(row)}\nrun {row['run_id']}"
                for row in own
            ],
            hoverinfo="text",
            meta=list(map(_key, own)),
            customdata=[row["report"] for row in own],
            marker={"color": colour(key.colour, 0.75 * key.opacity), "size": 10},
        )
        for name, key in colours.items()
        if (own := [row for row in rows if _configuration(row) == name])
    ]
    shown = {_configuration(row) for row in rows}
    return Figure(
        name="recoveries",
        title="Recovery",
        caption="From the heal of a fault until all replicas were in sync; one dot for each fault.",
        spoken="; ".join(
            f"{kind}: {min(times):.1f} to {max(times):.1f} s"
            for kind in kinds
            for times in [[row["recovery_s"] for row in rows if row["fault"] == kind]]
        )
        + ".",
        timed=False,
        keys=tuple(key for name, key in colours.items() if name in shown),
        traces=traces,
        layout=_by_row(kinds, title="seconds"),
    )


def _by_row(labels: Sequence[str], *, title: str, keys: Sequence[str] | None = None) -> Any:
    """Return the layout of a plot with one row for each label, the first at the top.

    The page's filter hides rows by `keys`.
    """
    return go.Layout(
        height=_ROW * len(labels) + 70,
        margin=_MARGIN,
        meta=keys,
        xaxis={"rangemode": "tozero", "title_text": title, "nticks": 6},
        yaxis={
            "range": [0.5 - len(labels), 0.75],
            "tickvals": [-row for row in range(len(labels))],
            "showticklabels": False,
        },
        annotations=[lane_label(label, 0.15 - row) for row, label in enumerate(labels)],
    )
