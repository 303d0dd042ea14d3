"""`ackproof compare`: configurations under the same faults."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options, own_files
from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from ackproof.comparison.store import ComparisonStore
    from ackproof.comparison.summary import Summary
    from ackproof.progress import Reporter
    from ackproof.runs.verdict import Verdict


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
    order_seed: Annotated[
        int, typer.Option(min=0, help="Decides the order of the trials, not the faults.")
    ] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Continue the interrupted comparison stored in DIR."),
    ] = None,
    shard: options.ShardOption = "",
    config: own_files.Config = None,
    topic: own_files.Topic = "",
    profile: own_files.Profile = "",
    client: own_files.Client = "",
    yes: Annotated[bool, typer.Option("--yes", help="Start even if the trials take long.")] = False,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    metrics: options.Metrics = None,
    as_json: options.Json = False,
) -> None:
    """Run every configuration of a scenario's matrix under the same faults and compare them.

    With --trials each configuration runs several times, in shuffled order, until it is decided
    which one loses more often or until the trials are used up. Every statement has a confidence.

    Examples: [bold]ackproof compare acks[/],
    [bold]ackproof compare acks --trials 30 --budget 2h[/],
    [bold]ackproof compare acks --config docker-compose.yml[/]
    """
    from ackproof.cluster.pool import ClusterPool
    from ackproof.comparison.compare import Comparison
    from ackproof.comparison.store import resume as resume_stored
    from ackproof.progress import ConsoleReporter
    from ackproof.report.ci import announce
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
        own = own_files.OwnFiles(config=config, topic=topic, profile=profile, client=client)
        with own_files.applied(scenario, own) as applied:
            store = _planned(
                applied,
                out=out,
                yes=yes,
                shard=shard,
                reporter=reporter,
                trials=trials,
                confidence=confidence,
                margin=margin,
                seed=order_seed,
                budget_s=options.budget_seconds(budget),
            )
    engine = options.engine(store.configurations)
    with ClusterPool(engine, say=reporter.note) as pool:
        run_trial = on_clusters(out=out, client=engine, reporter=reporter, pool=pool)
        comparison = Comparison(store, run_trial, reporter)
        try:
            summary = comparison.run()
        except KeyboardInterrupt:
            reporter.note(f"continue with: ackproof compare --resume {store.directory}")
            raise
    results = list(store.results())
    verdicts = [verdict for _, verdict in results]
    html = _write_reports(store, summary, results)
    announce(store.configurations, verdicts)
    if as_json:
        options.print_json([verdict.model_dump(mode="json") for verdict in verdicts])
    else:
        run_dirs = [run_dir for run_dir, _ in results]
        print_comparison(options.stdout(), summary, verdicts, run_dirs, html)
    options.exit_with(verdicts, options.with_metrics(metrics, results, comparison.failure))


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
    """Write the page and junit.xml of the comparison, and pages of its runs; return its page."""
    from ackproof.report.ci import write_junit
    from ackproof.report.html import write_missing_pages
    from ackproof.runs.directory import disk_errors, link_latest

    html = store.directory / "report.html"
    write_page(html, store, summary, results)
    with disk_errors(store.directory):
        write_junit(store.directory / "junit.xml", [verdict for _, verdict in results])
        write_missing_pages([run_dir for run_dir, _ in results])
        link_latest(store.directory.parent, store.directory)
    return html


def write_page(
    path: Path, store: ComparisonStore, summary: Summary, results: list[tuple[Path, Verdict]]
) -> None:
    from ackproof.report.comparison import shown_runs
    from ackproof.report.html import write_html
    from ackproof.report.premise import of_comparison
    from ackproof.runs.directory import disk_errors

    verdicts = [verdict for _, verdict in results]
    with disk_errors(path):
        write_html(
            path,
            shown_runs(summary, results),
            title=store.configurations[0].path.stem,
            summary=summary,
            verdicts=verdicts,
            facts=of_comparison(store, verdicts),
        )
