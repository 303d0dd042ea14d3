"""The `ackproof` command.

Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive (also: interrupted),
4 environment. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from ackproof.harness.commands import (
    baseline,
    bench_boot,
    bench_check,
    bench_faults,
    bench_ledger,
    bench_link,
    bench_model,
    compare,
    dashboard,
    histories,
    image,
    plan,
    protocols,
    replay,
    runs,
    schedule,
    shrink,
    warehouse,
)
from ackproof.harness.commands.shared import (
    LOCAL_SPARK,
    RUNS,
    Json,
    Out,
    ScenarioPath,
    Spark,
    complain,
    engine,
    exit_with,
    print_json,
    stderr,
    stdout,
)
from ackproof.harness.errors import AckproofError, ExitCode, ScenarioError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Prove that Kafka keeps what it acknowledged, on the cluster and configuration you run.",
)
bench_app = typer.Typer(no_args_is_help=True, help="Measure ackproof against a peer, as ratios.")
app.add_typer(image.app, name="image")
app.add_typer(bench_app, name="bench")
bench_app.command("boot")(bench_boot.boot)
bench_app.command("check")(bench_check.check)
bench_app.command("ledger")(bench_ledger.ledger)
bench_app.command("model")(bench_model.model)
bench_app.command("link")(bench_link.link)
bench_app.command("faults")(bench_faults.faults)
app.add_typer(warehouse.app, name="warehouse")
app.command()(dashboard.dashboard)
app.command()(compare.compare)
app.add_typer(baseline.app, name="baseline")
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("open")(runs.open_report)
app.command("schedule")(schedule.schedule)
app.command("plan")(plan.plan)
app.command("replay")(replay.replay)
app.command("shrink")(shrink.shrink)

#: What typer makes of a KeyboardInterrupt: 128 + SIGINT.
_INTERRUPTED = 130
#: A closed terminal leaves no more behind than Ctrl-C does.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFECT = "This may be a defect of ackproof; ACKPROOF_TRACEBACK=1 shows where it happened."


@app.command()
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
    from ackproof.harness.report import print_run

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
    from ackproof.harness.progress import ConsoleReporter
    from ackproof.harness.report import write_html, write_junit
    from ackproof.harness.report.ci import announce
    from ackproof.harness.run_dir import disk_errors
    from ackproof.harness.scenario_file import load_all
    from ackproof.harness.shards import Shard, share
    from ackproof.harness.suite import run_suite

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


@app.command()
def predict(
    scenario: ScenarioPath,
    *,
    compare_protocols: Annotated[
        bool,
        typer.Option(
            "--compare-protocols",
            help="Instead: what in-sync replicas and majority quorums survive, and what acks cost.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what the reference model allows, with the shortest trace to a loss. Needs no cluster.

    Example: [bold]ackproof predict scenarios/acks.yaml[/]
    """
    if compare_protocols:
        protocols.show(scenario, as_json=as_json)
        return
    from ackproof.harness.outlook import foresee
    from ackproof.harness.report.listings import print_prediction
    from ackproof.harness.scenario_file import load_all

    predictions = [(item, foresee(item.scenario)) for item in load_all(scenario)]
    if as_json:
        print_json(
            [
                {
                    "scenario": item.scenario.name,
                    "configuration_name": item.name,
                    **prediction.model_dump(mode="json"),
                }
                for item, prediction in predictions
            ]
        )
        return
    console = stdout()
    for item, prediction in predictions:
        print_prediction(console, item.name or item.scenario.name, prediction)


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or history files (JSON).")],
    *,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
    subscribe: histories.Subscribe = None,
    isolation_level: histories.IsolationLevel = None,
    acks: histories.AcksOption = None,
    idempotence: histories.Idempotence = None,
    ww_deps: histories.WwDeps = None,
) -> None:
    """Judge stored runs again, each from its directory alone; or check histories for anomalies.

    Recovers the ledger of a killed run. A history is a JSON file of what clients sent and polled.

    Examples: [bold]ackproof check runs/latest[/], [bold]ackproof check history.json --json[/]
    """
    from ackproof.harness.analysis import judge_run
    from ackproof.harness.report import print_run

    settings = {
        "sub_via": None if subscribe is None else "subscribe" if subscribe else "assign",
        "isolation_level": isolation_level,
        "acks": acks,
        "idempotence": idempotence,
        "ww_deps": ww_deps,
    }
    if histories.are_histories(paths):
        reports = histories.check_histories(paths, settings)
        if as_json:
            print_json([histories.document(one) for one in reports])
        else:
            histories.print_reports(stdout(), reports)
        raise typer.Exit(histories.exit_code(reports))
    if any(value is not None for value in settings.values()):
        raise typer.BadParameter("a run directory has its own configuration", param_hint="settings")
    verdicts = [judge_run(run_dir.resolve()) for run_dir in paths]
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict in verdicts]
        print_json(documents if len(documents) > 1 else documents[0])
    else:
        for run_dir, verdict in zip(paths, verdicts, strict=True):
            print_run(stdout(), verdict, run_dir)
    exit_with(verdicts)


@app.command()
def report(
    run_dirs: Annotated[list[Path], typer.Argument(help="One run directory, or several.")],
    to: Annotated[Path | None, typer.Option("--to", help="The file to write.")] = None,
    as_json: Json = False,
) -> None:
    """Write report.html again from one stored run, one page for several, or a comparison's.

    Example: [bold]ackproof report runs/latest[/]
    """
    from ackproof.harness.report import write_html
    from ackproof.harness.run_dir import disk_errors

    resolved = [run_dir.resolve() for run_dir in run_dirs]
    if len(resolved) == 1 and (resolved[0] / "comparison.json").exists():
        _say_report(compare.write_report_again(resolved[0], to=to), as_json=as_json)
        return
    path = to or resolved[-1] / "report.html"
    with disk_errors(path):
        write_html(path, resolved, title=resolved[-1].name)
    _say_report(path, as_json=as_json)


def _say_report(path: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"report": str(path)})
    else:
        typer.echo(path)


@app.command()
def validate(scenario: ScenarioPath, as_json: Json = False) -> None:
    """Check scenario files without running them.

    Example: [bold]ackproof validate scenarios/[/]
    """
    from ackproof.harness.scenario_file import load_all

    found = load_all(scenario)
    if as_json:
        print_json(
            [
                {
                    "path": str(item.path),
                    "scenario": item.scenario.name,
                    "configuration_name": item.name,
                }
                for item in found
            ]
        )
        return
    for item in found:
        typer.echo(f"{item.path}: {item.scenario.name} {item.name}".rstrip() + ": valid")


@app.command()
def doctor(out: Out = RUNS, as_json: Json = False) -> None:
    """Say what this machine can and cannot do, and what to do about it."""
    from ackproof.harness.doctor import examine
    from ackproof.harness.report.listings import print_checks

    checks = examine(out)
    if as_json:
        from dataclasses import asdict

        print_json([asdict(one) for one in checks])
    else:
        print_checks(stdout(), checks)
    if any(one.state == "missing" for one in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)


@app.command()
def faults(
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/faults.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List every fault: its fields, what it needs of the machine, and how it is proved.

    Example: [bold]ackproof faults --markdown > docs/faults.md[/]
    """
    from ackproof.faults import registered
    from ackproof.faults.catalogue import entries, markdown
    from ackproof.harness.report.listings import print_faults

    if as_json:
        schemas = {name: kind.model_json_schema() for name, kind in registered().items()}
        for entry in entries(registered()):
            schemas[entry.name] |= {"needs": entry.needs, "proof": entry.proof}
        print_json(schemas)
    elif as_markdown:
        typer.echo(markdown(registered()), nl=False)
    else:
        print_faults(stdout(), entries(registered()))


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files.

    Example: [bold]ackproof schema > scenario.v1.json[/]
    """
    from ackproof.harness.scenario import json_schema

    print_json(json_schema())


@app.command()
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what belongs to runs that still go on.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers, networks and volumes that dead runs left behind."""
    from dataclasses import asdict

    from ackproof.harness.cluster.engine import connect, remove_leftovers

    removed = remove_leftovers(connect(), everything=everything)
    if as_json:
        print_json(asdict(removed))
        return
    typer.echo(
        f"removed {removed.containers} containers, {removed.networks} networks, "
        f"{removed.volumes} volumes"
    )
    for kept in removed.kept:
        typer.echo(f"kept {kept}")


def main() -> None:
    """Run the command; every error a user can meet is one message and an exit code."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    sys.exit(_run_command())


def _run_command() -> int:
    try:
        # Returns the code of a command that ended with typer.Exit, else None; typer turns Ctrl-C
        # into 130.
        code = app(standalone_mode=False) or ExitCode.HOLDS
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]  # every one that typer raises has it
        return ExitCode.USAGE
    except AckproofError as error:
        complain(error)
        return error.exit_code
    except Exception as error:
        # Python would end with 1, which says that acknowledged records were lost.
        complain(AckproofError(f"unexpected {type(error).__name__}: {error}", hint=_DEFECT))
        if os.environ.get("ACKPROOF_TRACEBACK"):
            raise
        return ExitCode.ENVIRONMENT
    if code == _INTERRUPTED:
        stderr().print("interrupted: the cluster is gone, what was recorded is kept")
        return ExitCode.INCONCLUSIVE
    return int(code)


_interrupts: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the work on the first Ctrl-C; later ones must not end the cleaning up."""
    _interrupts.append(number)
    if len(_interrupts) == 1:
        raise KeyboardInterrupt
    stderr().print("still cleaning up (`ackproof clean` removes what is left)")
