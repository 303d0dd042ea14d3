"""`ackproof compare` and `baseline`: configurations under the same faults, runs over time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options, own_files
from ackproof.errors import ExitCode, RunDirectoryError, ScenarioError
from ackproof.safe_files import replacing

if TYPE_CHECKING:
    from ackproof.comparison.store import ComparisonStore
    from ackproof.comparison.summary import Summary
    from ackproof.progress import Reporter
    from ackproof.runs.verdict import Verdict


def exportable(path: Path | None) -> Path | None:
    """Refuse a paper that cannot be written, before anything runs."""
    if path is not None:
        from ackproof.report.paper import require_writable

        require_writable(path)
    return path


def compare(
    scenario: Annotated[
        Path | None,
        typer.Argument(callback=options.shipped_or_local, help=options.A_SCENARIO),
    ] = None,
    *,
    trials: Annotated[
        int, typer.Option(min=1, max=1000, help="Maximum number of trials of each configuration.")
    ] = 1,
    budget: options.Budget = "",
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Confidence of all statements together.")
    ] = 0.95,
    margin: Annotated[
        float,
        typer.Option(
            min=0.01, max=1, help="Treat chances of loss that differ by less than this as equal."
        ),
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the trials.")] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Continue the interrupted comparison stored in DIR."),
    ] = None,
    shard: options.ShardOption = "",
    config: own_files.Config = None,
    topic: own_files.Topic = "",
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=exportable,
            help="Also write the result as a paper, FILE.md or FILE.pdf. Of a stored comparison: "
            "ackproof report DIR --to FILE.md",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Start even if the trials take long.")] = False,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    as_json: options.Json = False,
) -> None:
    """Run every configuration of a scenario's matrix under the same faults and compare them.

    With --trials each configuration runs several times, in shuffled order, until it is decided
    which one loses more often or until the trials are used up. Every statement has a confidence.

    Examples: [bold]ackproof compare acks[/],
    [bold]ackproof compare acks --trials 30 --budget 2h[/],
    [bold]ackproof compare acks --config docker-compose.yml[/],
    [bold]ackproof compare acks --export decision.md[/]
    """
    from ackproof.cluster.pool import ClusterPool
    from ackproof.comparison.compare import Comparison
    from ackproof.comparison.store import resume as resume_stored
    from ackproof.progress import ConsoleReporter
    from ackproof.report.ci import announce
    from ackproof.report.paper import write_paper
    from ackproof.report.terminal import print_comparison
    from ackproof.trials import on_clusters

    if (scenario is None) == (resume is None):
        raise typer.BadParameter(
            "name either a scenario or --resume DIR, and not both", param_hint="SCENARIO"
        )
    reporter = ConsoleReporter(options.stderr())
    if resume is not None:
        store = resume_stored(resume.resolve())
        out = store.directory.parent
    else:
        assert scenario is not None
        with own_files.applied(scenario, own_files.OwnFiles(config=config, topic=topic)) as applied:
            store = _planned(
                applied,
                out=out,
                yes=yes,
                shard=shard,
                reporter=reporter,
                trials=trials,
                confidence=confidence,
                margin=margin,
                seed=seed,
                budget_s=options.budget_seconds(budget),
            )
    client = options.engine(store.configurations)
    with ClusterPool(client, say=reporter.note) as pool:
        run_trial = on_clusters(out=out, client=client, reporter=reporter, pool=pool)
        comparison = Comparison(store, run_trial, reporter)
        try:
            summary = comparison.run()
        except KeyboardInterrupt:
            reporter.note(f"continue with: ackproof compare --resume {store.directory}")
            raise
    results = list(store.results())
    verdicts = [verdict for _, verdict in results]
    html = _write_reports(store, summary, results)
    if export is not None:
        write_paper(export, summary, verdicts, title=store.configurations[0].path.stem)
        reporter.note(f"paper: {export}")
    announce(store.configurations, verdicts)
    if as_json:
        options.print_json([verdict.model_dump(mode="json") for verdict in verdicts])
    else:
        run_dirs = [run_dir for run_dir, _ in results]
        print_comparison(options.stdout(), summary, verdicts, run_dirs, html)
    options.exit_with(verdicts, comparison.failure)


def _planned(
    scenario: Path,
    *,
    out: Path,
    yes: bool,
    shard: str,
    reporter: Reporter,
    **further: Any,
) -> ComparisonStore:
    """Store the plan of a comparison; `further` are more fields of it."""
    from ackproof.comparison.store import (
        ComparisonPlan,
        create,
        faults_of,
        label,
        require_confirmed,
        settings_of,
    )
    from ackproof.runs.directory import fresh_name

    configurations = options.configurations_of(scenario, shard=shard)
    if len(configurations) == 1 and further["trials"] == 1 and not shard:
        raise ScenarioError(
            f"{scenario} has one configuration, so there is nothing to compare it with",
            hint="Give it a matrix, repeat it with --trials, or use ackproof run.",
        )
    plan = ComparisonPlan(
        comparison_id=fresh_name(
            out, configurations[0].scenario.name, "comparison", datetime.now(UTC)
        ),
        configurations=[label(one, configurations) for one in configurations],
        faults={label(one, configurations): faults_of(one) for one in configurations},
        settings={label(one, configurations): settings_of(one) for one in configurations},
        shard=shard,
        **further,
    )
    reporter.note(require_confirmed(configurations, plan, out=out, yes=yes))
    return create(out, plan, configurations)


def _write_reports(
    store: ComparisonStore, summary: Summary, results: list[tuple[Path, Verdict]]
) -> Path:
    """Write the page and junit.xml of the comparison, and pages of its runs.

    The last run gets a copy of the page.
    """
    from ackproof.report.ci import write_junit
    from ackproof.report.html import provide_library, write_missing_pages
    from ackproof.runs.directory import disk_errors

    html = store.directory / "report.html"
    _write_page(html, store, summary, results)
    with disk_errors(store.directory):
        write_junit(store.directory / "junit.xml", [verdict for _, verdict in results])
        last = results[-1][0]
        with replacing(last / html.name) as partial:
            shutil.copyfile(html, partial)
        provide_library(last)
        write_missing_pages([run_dir for run_dir, _ in results])
    return last / "report.html" if summary.plan.trials == 1 else html


def _write_page(
    path: Path, store: ComparisonStore, summary: Summary, results: list[tuple[Path, Verdict]]
) -> None:
    from ackproof.report.comparison import shown_runs
    from ackproof.report.html import write_html
    from ackproof.runs.directory import disk_errors

    with disk_errors(path):
        write_html(
            path,
            shown_runs(summary, results),
            title=store.configurations[0].path.stem,
            summary=summary,
            verdicts=[verdict for _, verdict in results],
        )


def write_stored_page(directory: Path, *, to: Path | None) -> Path:
    """Write the page of a stored comparison, by default to its report.html, and return the path.

    A path that ends in .md or .pdf is a paper.

    Raises RunDirectoryError if the comparison is damaged, or one of its runs is missing.
    """
    from ackproof.comparison.store import resume as resume_stored
    from ackproof.comparison.summary import Summary
    from ackproof.report.paper import FORMATS, require_writable, write_paper
    from ackproof.runs.directory import read_model

    summary = read_model(directory, "comparison.json", Summary)
    store = resume_stored(directory)
    results = list(store.results())
    if not results:
        raise RunDirectoryError(
            f"{directory}: no trial of this comparison has ended, so there is no page to write",
            hint=f"Continue it with: ackproof compare --resume {directory}",
        )
    path = to or directory / "report.html"
    if path.suffix in FORMATS:
        title, verdicts = store.configurations[0].path.stem, [verdict for _, verdict in results]
        require_writable(path)
        write_paper(path, summary, verdicts, title=title)
    else:
        _write_page(path, store, summary, results)
    return path


baselines = typer.Typer(
    no_args_is_help=True,
    help="Compare availability and latency of runs with those of earlier runs.",
)


@baselines.command("write")
def write_baseline(
    run_dirs: options.RunDirs,
    *,
    to: Annotated[Path, typer.Option("--to", dir_okay=False, help="The baseline file to write.")],
    as_json: options.Json = False,
) -> None:
    """Store availability and latency of runs as a baseline. Use about ten runs a configuration.

    Example: [bold]ackproof baseline write runs/2*/ --to baseline.json[/]
    """
    from ackproof.comparison.baseline import Baseline, samples
    from ackproof.runs.directory import write_model

    baseline = Baseline(configurations=samples(_verdicts(run_dirs)))
    write_model(to, baseline)
    options.print_result(to, baseline.model_dump(mode="json"), as_json=as_json)


@baselines.command("check")
def check_baseline(
    baseline: Annotated[
        Path, typer.Argument(help="A file that `ackproof baseline write` has written.")
    ],
    run_dirs: options.RunDirs,
    *,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Ignore changes below this share of the earlier value."),
    ] = 0.1,
    as_json: options.Json = False,
) -> None:
    """Compare runs with a baseline. Exit 1 if one is worse, 3 if there are too few runs to tell.

    Example: [bold]ackproof baseline check baseline.json runs/2*/[/]
    """
    from ackproof.comparison.baseline import changes, read_baseline, samples

    compared = changes(read_baseline(baseline), samples(_verdicts(run_dirs)), tolerance=tolerance)
    if as_json:
        options.print_json([change.model_dump(mode="json") for change in compared])
    else:
        for change in compared:
            options.stdout().print(
                f"{change.configuration}: {change.measure} {change.before:.4g} before, "
                f"{change.now:.4g} now: {change.judged} (p = {change.p_value:.2g})",
                highlight=False,
                markup=False,
            )
    judged = {change.judged for change in compared}
    if "worse" in judged:
        raise typer.Exit(ExitCode.VIOLATED)
    if "too few runs" in judged or not compared:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _verdicts(run_dirs: Sequence[Path]) -> list[Verdict]:
    from ackproof.runs.directory import read_verdict

    return [read_verdict(run_dir) for run_dir in options.run_directories(run_dirs)]
