"""The report: an HTML page for a run or a comparison, which works offline.

Beside the page lies the plot library, once for all pages of a folder.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ackproof.comparison.summary import Summary
from ackproof.report import advice, agreement, comparison, formatting, sequence, wording
from ackproof.report.answer import answer
from ackproof.report.data.loss_stories import read_histories
from ackproof.report.data.run import Run, read_run
from ackproof.report.outcome import AS_EXPECTED, Outcome, outcome, sentence
from ackproof.report.plots import comparison as comparison_plots
from ackproof.report.plots.figure import Figure, escaped
from ackproof.report.plots.of_run import figures
from ackproof.report.plots.time_axis import time_range, zoom_range
from ackproof.report.sequence import Diagram
from ackproof.runs.verdict import FaultReport, Verdict, Word
from ackproof.safe_files import replacing

# Maximum number of time bins of a run, and of all runs of a page, which limits the file's size.
_BINS_OF_A_RUN = 600
_BINS_OF_A_PAGE = 12_000

#: What plotly reads as markup in a trace.
_LABELS = ("text", "hovertext")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunView:
    """One run as the template shows it."""

    anchor: str
    run: Run
    name: str
    figures: list[Figure]
    outcome: Outcome | None
    sentence: str
    advice: str
    stories: list[str]
    histories: tuple[Mapping[str, Any], ...]
    #: Sequence diagrams with captions: the model's trace, and the loss with most records.
    diagrams: list[tuple[Diagram, str]]
    #: Lengths of the bars in the comparison's table; None without a verdict.
    row: _Row | None

    @property
    def verdict(self) -> Verdict | None:
        return self.run.verdict

    def span(self, window: FaultReport) -> str:
        """Return a fault's times in seconds since the origin."""
        begin = f"{self.run.second(window.verified_at or window.injected_at):.2f}"
        if window.healed_at is None:
            return f"{begin} s, never healed"
        return f"{begin} to {self.run.second(window.healed_at):.2f} s"

    def zoom(self, window: FaultReport) -> str:
        """Return the time range that the fault's zoom button shows."""
        return json.dumps(zoom_range(self.run, window))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Lengths of the bars in a row of the comparison's table, 0 to 1."""

    lost: float
    unavailable: float
    latency: float


def write_html(
    path: Path, run_dirs: Sequence[Path], *, title: str, summary: Summary | None = None
) -> None:
    """Write a page about these run directories to `path`; about a comparison if there are several.

    The plot library is written beside it, unless it is there.

    `summary` is the summary of all trials, of which `run_dirs` are then examples. For a damaged or
    unfinished run the page names what is missing. Raises RunDirectoryError if a directory is not
    a run directory.
    """
    bins = min(_BINS_OF_A_RUN, max(60, _BINS_OF_A_PAGE // max(len(run_dirs), 1)))
    runs = [read_run(directory, max_bins=bins) for directory in run_dirs]
    views = _views(runs)
    verdicts = [run.verdict for run in runs if run.verdict]
    of_trials = summary if summary is not None and summary.plan.trials > 1 else None
    summary_figures = comparison_plots.figures(of_trials) if of_trials else []
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            views=views,
            verdicts=verdicts,
            comparison=len(runs) > 1,
            answer=answer(verdicts) if len(runs) > 1 and of_trials is None else [],
            advice=_advice(verdicts, of_trials) if len(runs) > 1 else "",
            summary=of_trials,
            summary_figures=summary_figures,
            style=asset("report.css"),
            script=asset("report.js"),
            library=provide_library(path.parent),
            figures={
                f"{view.anchor}-{figure.name}": plot_data(figure, view)
                for view in views
                for figure in view.figures
            }
            | {f"comparison-{figure.name}": plot_data(figure) for figure in summary_figures},
        )
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def write_missing_pages(run_dirs: Sequence[Path]) -> None:
    """Write the page of each run that has none into its directory, for dashboards to link to."""
    for directory in run_dirs:
        page = directory / "report.html"
        if not page.exists():
            write_html(page, [directory], title=directory.name)


def _advice(verdicts: Sequence[Verdict], summary: Summary | None) -> str:
    return advice.of_runs(verdicts) if summary is None else advice.of_trials(summary)


def _diagrams(run: Run, histories: Sequence[Mapping[str, Any]]) -> list[tuple[Diagram, str]]:
    """Return the model's trace beside the history of most lost records, if records were lost."""
    if run.verdict is None or not (run.losses and run.losses.count):
        return []
    foreseen = sequence.of_model(run.verdict.prediction.diagram)
    happened = sequence.of_history(histories[0], run.windows) if histories else None
    return [
        (diagram, caption)
        for diagram, caption in (
            (foreseen, "The model's shortest trace to a loss; it numbers its steps."),
            (happened, "The loss of most records, by the logs of cluster and clients, UTC."),
        )
        if diagram is not None
    ]


def _views(runs: Sequence[Run]) -> list[_RunView]:
    verdicts = [run.verdict for run in runs if run.verdict]
    most_lost = max((_lost_share(verdict) for verdict in verdicts), default=0.0)
    longest = max((verdict.metrics.unavailability_s for verdict in verdicts), default=0.0)
    slowest = max((_p99(verdict) for verdict in verdicts), default=0.0)
    names = [run.name for run in runs]
    views = []
    for number, run in enumerate(runs, start=1):
        trial = names[: number - 1].count(run.name) + 1
        histories = read_histories(run.directory)
        views.append(
            _RunView(
                anchor=f"run-{number}",
                run=run,
                name=run.name if names.count(run.name) == 1 else f"{run.name} (run {trial})",
                figures=figures(run),
                outcome=outcome(run.verdict) if run.verdict else None,
                sentence=sentence(run.verdict) if run.verdict else "",
                # In a comparison the advice is drawn from the other configurations.
                advice=advice.of_run(run.verdict, run.directory)
                if run.verdict and len(runs) == 1
                else "",
                stories=[
                    wording.story(group, run.windows)
                    for group in (run.losses.groups if run.losses else ())
                ],
                histories=histories,
                diagrams=_diagrams(run, histories),
                row=_Row(
                    lost=_part(_lost_share(run.verdict), most_lost),
                    unavailable=_part(run.verdict.metrics.unavailability_s, longest),
                    latency=_part(_p99(run.verdict), slowest),
                )
                if run.verdict
                else None,
            )
        )
    return views


def _lost_share(verdict: Verdict) -> float:
    return verdict.observed.get("lost", 0) / max(verdict.observed.get("acked", 0), 1)


def _p99(verdict: Verdict) -> float:
    latency = verdict.metrics.ack_latency_ms
    return latency.p99 if latency else 0.0


def _part(value: float, most: float) -> float:
    return round(value / most, 4) if most else 0.0


def plot_data(figure: Figure, view: _RunView | None = None) -> dict[str, Any]:
    """Return a figure as `report.js` reads it; `origin` is in milliseconds since 1970."""
    origin = view.run.origin if view else None
    return {
        "data": [_as_text(trace) for trace in figure.traces],
        "layout": figure.layout,
        "origin": origin.timestamp() * 1000 if origin else None,
        "run": view.anchor if view and figure.timed else None,
        "follow": figure.follow,
    }


def _as_text(trace: dict[str, Any]) -> dict[str, Any]:
    """Return a trace whose labels show markup as text: names come from scenarios and clusters."""
    labels = {key: [escaped(text) for text in trace[key]] for key in _LABELS if key in trace}
    return trace | labels


@cache
def environment() -> Environment:
    """Return the templates' environment, which compiles each template once."""
    environment = Environment(
        loader=PackageLoader("ackproof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals |= {
        "fmt": formatting,
        "words": wording,
        "agreements": agreement,
        "trials": comparison,
        "Word": Word,
        "as_expected": {word.value: answer for word, answer in AS_EXPECTED.items()},
        "whole_run": lambda view: json.dumps(time_range(view.run)),
        "colour_class": lambda colour: colour.removeprefix("@").partition("/")[0],
        "opacity": lambda colour: colour.partition("/")[2] or "1",
    }
    return environment


def asset(name: str) -> Markup:
    """Return a style sheet or script of this package, unescaped."""
    file = resources.files("ackproof.report") / "templates" / name
    return Markup(file.read_text(encoding="utf-8"))  # noqa: S704 - our own file


def provide_library(folder: Path) -> str:
    """Put the plot library into a folder of pages, unless it is there; return its file name.

    Where the file system allows it is a link to the installed file, so that it takes no space.
    """
    version = importlib.metadata.version("plotly")
    target = folder / f"plotly-{version}.min.js"
    if not target.is_file() or target.is_symlink():
        target.unlink(missing_ok=True)
        with resources.as_file(
            resources.files("plotly") / "package_data" / "plotly.min.js"
        ) as source:
            try:
                target.hardlink_to(source)
            except OSError:  # another file system, or one without links
                shutil.copyfile(source, target)
    return target.name
