"""`ackproof run`: run scenarios on real clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options, own_files
from ackproof.errors import AckproofError, DiskError

if TYPE_CHECKING:
    from ackproof.scenario.loader import Configured


@options.grouped
def run(
    scenario: options.OptionalScenario = None,
    *,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Boot a new cluster for every run of a suite.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Follow each run with Spark while it is in progress.")
    ] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Leave the cluster of the last run up, and print how to reach it."
        ),
    ] = False,
    arm: options.Arm = "",
    kafka: options.OnlyKafka = "",
    seed: options.Seed = None,
    assigned: options.Set = None,
    shard: options.ShardOption = "",
    own: own_files.OwnFiles,
    metrics: options.Metrics = None,
    as_json: options.Json = False,
) -> None:
    """Run a scenario, or every scenario of a folder, on a real cluster and judge the outcome.

    Examples: [bold]ackproof run acks-all[/], [bold]ackproof run B6[/],
    [bold]ackproof run catalogue --kafka 3.9.1[/],
    [bold]ackproof run --server server.properties --producer producer.properties[/]
    """
    from ackproof.report.terminal import print_run

    scenario = own_files.scenario_path(scenario, own)
    seeds = [] if seed is None else [f"seed={seed}"]
    configurations, _ = own_files.configurations_of(
        scenario, own, shard=shard, arm=arm, kafka=kafka, assigned=[*(assigned or []), *seeds]
    )
    results, failure = _run_all(
        configurations, out, title=scenario.stem, reuse=not fresh, live=live, keep=keep
    )
    verdicts = [verdict for _, verdict in results]
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict in verdicts]
        options.print_json(documents if scenario.is_dir() or len(documents) > 1 else documents[0])
    else:
        for run_dir, verdict in results:
            print_run(options.stdout(), verdict, run_dir)
    failure = options.with_metrics(metrics, results, failure)
    options.exit_with(verdicts, failure)


def _run_all(
    configurations: Sequence[Configured],
    out: Path,
    *,
    title: str,
    reuse: bool,
    live: bool,
    keep: bool,
) -> tuple[Sequence[tuple[Path, Any]], AckproofError | None]:
    """Run every configuration; write report.html and junit.xml of all of them into the last run.

    The other runs get separate pages. Returns the results, and an error that ended the suite early
    or prevented a page. Raises the error if there is no result.
    """
    from ackproof.execution.runner import run_suite
    from ackproof.progress import ConsoleReporter
    from ackproof.report.ci import announce
    from ackproof.report.html import write_missing_pages
    from ackproof.runs.directory import disk_errors

    results: list[tuple[Path, Any]] = []
    failure: AckproofError | None = None
    runs = run_suite(
        configurations,
        out=out,
        client=options.engine(configurations),
        reporter=ConsoleReporter(options.stderr()),
        reuse=reuse,
        live=live,
        keep=keep,
    )
    try:
        results.extend(runs)
    except AckproofError as error:
        if not results:
            raise
        failure = error
    run_dirs, verdicts = [run_dir for run_dir, _ in results], [verdict for _, verdict in results]
    try:
        options.write_reports(run_dirs, verdicts, title=title)
        with disk_errors(run_dirs[-1]):
            write_missing_pages(run_dirs)
    except DiskError as error:
        failure = failure or error
    announce(configurations, verdicts)
    return results, failure
