"""`ackproof run`: scenarios on real clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ackproof.cli.options import (
    LOCAL_SPARK,
    RUNS,
    Json,
    Out,
    ScenarioPath,
    Spark,
    engine,
    exit_with,
    print_json,
    stderr,
    stdout,
)
from ackproof.errors import AckproofError, ScenarioError


def run(
    scenario: ScenarioPath,
    *,
    out: Out = RUNS,
    spark: Spark = LOCAL_SPARK,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Boot every run of a suite a cluster of its own.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Follow each run with Spark while it goes on.")
    ] = False,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Only every Nth run of a suite, from the Ith.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Run a scenario on a real cluster, or every scenario of a folder, and judge it.

    Example: [bold]ackproof run scenarios/acks-all.yaml[/]
    """
    from ackproof.report import print_run

    results, failure = _run_all(
        scenario, out, title=scenario.stem, reuse=not fresh, live=live, shard=shard
    )
    verdicts = [verdict for _, verdict in results]
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict in verdicts]
        print_json(documents if scenario.is_dir() or len(documents) > 1 else documents[0])
    else:
        for run_dir, verdict in results:
            print_run(stdout(), verdict, run_dir)
    exit_with(verdicts, failure)


def _run_all(
    scenario: Path,
    out: Path,
    *,
    title: str,
    reuse: bool = False,
    live: bool = False,
    shard: str = "",
) -> tuple[Sequence[tuple[Path, Any]], AckproofError | None]:
    """Run every configuration; write one report and one junit.xml for all into the last run.

    Returns what ended the suite early beside the results until then; raises it if there are none.
    """
    from ackproof.execution.suite import run_suite
    from ackproof.progress import ConsoleReporter
    from ackproof.report import write_html, write_junit
    from ackproof.report.ci import announce
    from ackproof.runs.directory import disk_errors
    from ackproof.scenario.loader import load_all
    from ackproof.scenario.shards import Shard, share

    configurations = share(load_all(scenario), Shard.parse(shard))
    if not configurations:
        raise ScenarioError(f"shard {shard} holds no configuration", hint="Use fewer shards.")
    results: list[tuple[Path, Any]] = []
    failure = None
    runs = run_suite(
        configurations,
        out=out,
        client=engine(configurations),
        reporter=ConsoleReporter(stderr()),
        reuse=reuse,
        live=live,
    )
    try:
        results.extend(runs)
    except AckproofError as error:
        if not results:
            raise
        failure = error
    last = results[-1][0]
    with disk_errors(last):
        write_html(last / "report.html", [run_dir for run_dir, _ in results], title=title)
        write_junit(last / "junit.xml", [verdict for _, verdict in results])
    announce(configurations, [verdict for _, verdict in results])
    return results, failure
