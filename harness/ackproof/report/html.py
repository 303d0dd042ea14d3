"""The report: an HTML page for a run, a comparison or what `advise` answers. It works offline.

All pages of a folder share one copy of the plot library in that folder.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from markupsafe import Markup
from pydantic import ValidationError

from ackproof.comparison.summary import Summary, stored_settings, summary_of
from ackproof.errors import RunDirectoryError
from ackproof.judgement.overview.collect import overview_of
from ackproof.rendering import pages
from ackproof.rendering.pages import style_sheet
from ackproof.report import (
    certainty,
    comparison,
    comparison_plots,
    formatting,
    premise,
    recommendation,
    sequence,
    wording,
)
from ackproof.report.figure import Figure, escaped
from ackproof.report.run_plots import figures, time_range, zoom_range
from ackproof.runs.directory import disk_errors, read_record, refuse_special_files
from ackproof.runs.overview import Overview, Timeline
from ackproof.runs.verdict import FaultReport, Verdict, Word
from ackproof.safe_files import replacing
from ackproof_model import Diagram
from ackproof_spark.tables import LOCATION

if TYPE_CHECKING:
    from ackproof.advise.alternatives import Alternative
    from ackproof.advise.dead_cluster import ClusterState
    from ackproof.advise.outage_screen import Section

#: Maximum number of time bins of a run, and of a page, which limits its size.
_BINS_OF_A_RUN = 600
_BINS_OF_A_PAGE = 12_000

_VERDICT, _SCENARIO, _RECORD = "verdict.json", "scenario.yaml", "run.json"

#: The keys of a trace in which plotly interprets markup.
_LABELS = ("text", "hovertext")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The documents of a run directory, and how a page shows them."""

    directory: Path
    verdict: Verdict | None
    scenario: str | None
    #: A sentence for each missing or unreadable file.
    missing: Sequence[str]
    #: Errors during the run, from `run.json`.
    troubles: Sequence[str]
    #: The configuration, else the scenario, else the directory; unique on a page.
    name: str
    overview: Overview
    timeline: Timeline | None
    anchor: str = ""
    figures: Sequence[Figure] = ()
    recommendation: str = ""
    #: Its settings that determine durability; empty if its scenario cannot be read.
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> wording.Outcome | None:
        return wording.outcome(self.verdict) if self.verdict else None

    @property
    def stories(self) -> list[str]:
        return [wording.story(group, self.overview.windows) for group in self.overview.groups]

    def span(self, window: FaultReport) -> str:
        """Return a fault's times in seconds since the origin."""
        second = self.overview.second
        begin = f"{second(window.verified_at or window.injected_at):.2f}"
        if window.healed_at is None:
            return f"{begin} s, never healed"
        return f"{begin} to {second(window.healed_at):.2f} s"

    def zoom(self, window: FaultReport) -> str:
        """Return the time range that the fault's zoom button shows."""
        return json.dumps(zoom_range(self.overview, window))

    @property
    def diagrams(self) -> list[tuple[Diagram, str, str]]:
        """The model's trace and the history of most lost records, with titles and captions.

        Empty if no records were lost.
        """
        overview = self.overview
        if self.verdict is None or not (overview.losses and overview.losses.count):
            return []
        foreseen = "The model's shortest trace to a loss; it numbers its steps."
        drawn = overview.histories[:1]
        every = overview.losses.count
        of_all = [
            f" ({formatting.count(one.count)} of {formatting.count(every)})"
            for one in drawn
            if one.count < every
        ]
        happened = (
            f"The loss of most records{''.join(of_all)}, by the logs of cluster and clients, UTC."
        )
        histories = (sequence.of_history(one, overview) for one in drawn)
        return [
            *([(overview.trace, "What the model foresaw", foreseen)] if overview.trace else []),
            *((diagram, "What happened", happened) for diagram in histories if diagram),
        ]


def write_html(
    path: Path,
    run_dirs: Sequence[Path],
    *,
    title: str,
    summary: Summary | None = None,
    verdicts: Sequence[Verdict] | None = None,
    facts: Sequence[premise.Fact] = (),
) -> None:
    """Write a page about a run, or about the comparison of several runs, to `path`.

    `summary` is that of all trials with these `verdicts`, `facts` say what they tried, and
    `run_dirs` are examples; without it, several runs are summarised. For a damaged or unfinished
    run the page lists what is missing. Raises RunDirectoryError if a directory is not a run
    directory.
    """
    bins = min(_BINS_OF_A_RUN, max(60, _BINS_OF_A_PAGE // max(len(run_dirs), 1)))
    views = _on_one_page([read_run(directory, bins=bins) for directory in run_dirs])
    judged = [(view.verdict, view.directory) for view in views if view.verdict]
    if summary is None and len(views) > 1 and judged:
        summary = summary_of(*zip(*judged, strict=True))
        facts = premise.of_runs(*zip(*judged, strict=True))
    plots = comparison_plots.figures(summary) if summary and summary.sampled else []
    write_page(
        path,
        "report.html.j2",
        {
            f"{view.anchor}-{figure.name}": (figure, view)
            for view in views
            for figure in view.figures
        }
        | {f"comparison-{figure.name}": (figure, None) for figure in plots},
        title=title,
        views=views,
        verdicts=verdicts or [verdict for verdict, _ in judged],
        recommendation=recommendation.of_comparison(summary) if summary else [],
        summary=summary,
        premise=facts,
        summary_figures=plots,
        table=comparison.questions(summary) if summary else [],
        anchors={view.name: view.anchor for view in views},
    )


def write_missing_pages(run_dirs: Sequence[Path]) -> None:
    """Write missing pages into the run directories, for dashboards to link to."""
    for directory in run_dirs:
        page = directory / "report.html"
        if not page.exists():
            write_html(page, [directory], title=directory.name)


def write_page(
    path: Path,
    template_name: str,
    plots: Mapping[str, tuple[Figure, Run | None]],
    **values: Any,
) -> None:
    """Render a template with its plots by element id, and write the page."""
    page = environment().get_template(template_name)
    text = page.render(
        style=style_sheet(),
        script=asset("report.js"),
        library=provide_library(path.parent),
        template=json.loads(asset("plot.json")),
        figures={name: plot_data(figure, view) for name, (figure, view) in plots.items()},
        **values,
    )
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_run(directory: Path, *, bins: int = _BINS_OF_A_RUN) -> Run:
    """Read a run directory, even an incomplete one. Raises RunDirectoryError for other folders."""
    if not directory.is_dir():
        raise RunDirectoryError(
            f"{directory} is not a directory", hint="Name a run directory, such as runs/latest."
        )
    known = [_RECORD, _VERDICT, _SCENARIO, *map(str, LOCATION.values())]
    if not any((directory / name).exists() for name in known):
        raise RunDirectoryError(
            f"{directory} is not a run directory: it contains none of {', '.join(known)}",
            hint="Name a run directory, such as runs/latest.",
        )
    refuse_special_files(directory)
    missing: list[str] = []
    verdict, scenario = _read_verdict(directory, missing), _read_scenario(directory, missing)
    try:
        record = read_record(directory)
    except RunDirectoryError:
        record = None
        missing.append(f"{_RECORD}: missing or unreadable.")
    named, overview = verdict or record, overview_of(directory)
    return Run(
        directory=directory,
        verdict=verdict,
        scenario=scenario,
        missing=[*missing, *overview.missing],
        troubles=record.troubles if record else [],
        name=(named.configuration_name if named else "")
        or (verdict.scenario if verdict else directory.name),
        overview=overview,
        timeline=overview.timeline(bins=bins),
        settings=stored_settings(verdict, directory) if verdict else {},
    )


def _read_verdict(directory: Path, missing: list[str]) -> Verdict | None:
    try:
        return Verdict.model_validate_json((directory / _VERDICT).read_bytes())
    except FileNotFoundError:
        missing.append(f"{_VERDICT}: missing: the run was interrupted or not judged.")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        missing.append(f"{_VERDICT}: cannot be read ({where}: {first['msg']}).")
    return None


def _read_scenario(directory: Path, missing: list[str]) -> str | None:
    try:
        return (directory / _SCENARIO).read_text(encoding="utf-8")
    except FileNotFoundError:
        missing.append(f"{_SCENARIO}: missing.")
    except UnicodeDecodeError:
        missing.append(f"{_SCENARIO}: cannot be read (not UTF-8).")
    return None


def _on_one_page(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with unique names, their figures, and the recommendation for a single run."""
    names = [run.name for run in runs]
    shown = []
    for number, run in enumerate(runs, start=1):
        trial = names[:number].count(run.name)
        # A comparison has one recommendation, drawn from all of its configurations.
        alone = run.verdict if len(runs) == 1 else None
        without = "quantiles" if run.verdict and not wording.latencies(run.verdict) else ""
        plots = figures(run.overview, run.timeline)
        shown.append(
            replace(
                run,
                anchor=f"run-{number}",
                name=run.name if names.count(run.name) == 1 else f"{run.name} (run {trial})",
                figures=[figure for figure in plots if figure.name != without],
                recommendation=recommendation.of_run(alone, run.overview.safer) if alone else "",
            )
        )
    return shown


#: Groups of topics on a page.
_MOST_GROUPS = 100


def write_advice_page(
    path: Path, cluster: ClusterState, by_acks: Mapping[str, Sequence[Alternative]]
) -> None:
    from ackproof.advise.screen import distinct, group_lines, notes, together, with_acks

    _write_advice(
        path,
        "Which steps keep acknowledged records?",
        cluster=cluster,
        notes=list(notes(cluster, _MOST_GROUPS)),
        by_acks=[(with_acks(acks), distinct(judged)) for acks, judged in together(by_acks)],
        groups=lambda one: list(group_lines(one, cluster)),
    )


def write_outage_page(path: Path, sections: Sequence[Section]) -> None:
    _write_advice(path, "Which records did the outage take?", sections=sections)


def _write_advice(path: Path, title: str, **content: Any) -> None:
    _write_static(
        path,
        "advise.html.j2",
        title=title,
        most=_MOST_GROUPS,
        tones={"keeps everything": "kept", "loses": "lost"},
        notices={"lost": "finding", "unclear": "inconclusive"},
        **{"notes": (), "by_acks": (), "sections": (), **content},
    )


def _write_static(path: Path, template_name: str, **values: Any) -> None:
    """Write a page that works offline and has no script; `tones` are classes of `report.css`."""
    text = environment().get_template(template_name).render(style=style_sheet(), **values)
    with disk_errors(path), replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def plot_data(figure: Figure, view: Run | None = None) -> dict[str, Any]:
    """Return a figure as `report.js` reads it; `origin` is in milliseconds since 1970."""
    origin = view.overview.origin if view else None
    return {
        "data": [_as_text(trace.to_plotly_json()) for trace in figure.traces],
        "layout": figure.layout.to_plotly_json(),
        "origin": origin.timestamp() * 1000 if origin else None,
        "run": view.anchor if view and figure.timed else None,
        "follow": figure.follow,
    }


def _as_text(trace: dict[str, Any]) -> dict[str, Any]:
    """Escape markup in labels, which contain names from scenarios and clusters."""
    labels = {key: [escaped(text) for text in trace[key]] for key in _LABELS if key in trace}
    return trace | labels


@cache
def environment() -> Environment:
    environment = pages.environment("ackproof.report")
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals |= {
        "fmt": formatting,
        "words": wording,
        "trials": comparison,
        "certainty": certainty,
        "Word": Word,
        "as_expected": {word.value: answer for word, answer in wording.AS_EXPECTED.items()},
        "whole_run": lambda view: json.dumps(time_range(view.overview)),
    }
    return environment


def asset(name: str) -> Markup:
    file = resources.files("ackproof.report") / "templates" / name
    return Markup(file.read_text(encoding="utf-8"))  # noqa: S704 - our own file


def provide_library(folder: Path) -> str:
    """Link or copy the plot library into a folder of pages; return its file name."""
    version = importlib.metadata.version("plotly")
    target = folder / f"plotly-{version}.min.js"
    if not target.is_file() or target.is_symlink():
        target.unlink(missing_ok=True)
        with resources.as_file(
            resources.files("plotly") / "package_data" / "plotly.min.js"
        ) as source:
            try:
                target.hardlink_to(source)
            except OSError:  # another file system, or links are not supported
                shutil.copyfile(source, target)
    return target.name
