"""`ackproof replay`: repeat a stored run, and compare the outcome with the stored one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof.cli.options import (
    LOCAL_SPARK,
    RUNS,
    Json,
    Out,
    RunDir,
    Spark,
    engine,
    exit_with,
    find_run,
    print_json,
    stderr,
    stdout,
    write_reports,
)

if TYPE_CHECKING:
    from ackproof.reproduction.replay import Replay


def replay(
    run_dir: RunDir, *, out: Out = RUNS, spark: Spark = LOCAL_SPARK, as_json: Json = False
) -> None:
    """Repeat a stored run: same seed, same faults, each at the same number of acked sends.

    Prints what differs between both runs. The exit code is that of the repetition's verdict.

    Example: [bold]ackproof replay runs/latest[/]
    """
    from ackproof.execution.runner import run
    from ackproof.judgement.judge import judge_run
    from ackproof.progress import ConsoleReporter
    from ackproof.report.terminal import print_run
    from ackproof.reproduction.recorded_run import recorded_run
    from ackproof.reproduction.replay import compare_runs
    from ackproof.runs.directory import write_model

    then = find_run(run_dir, out)
    recorded = recorded_run(then)
    reporter = ConsoleReporter(stderr())
    for note in recorded.notes:
        reporter.note(note)
    if not (then / "verdict.json").exists():
        judge_run(then)
    configured = recorded.configured
    now, verdict = run(
        configured, out=out, client=engine([configured]), reporter=reporter, replays=then.name
    )
    comparison = compare_runs(then, now, notes=recorded.notes)
    write_model(now / "replay.json", comparison)
    write_reports([now], [verdict], title=now.name)
    if as_json:
        print_json({**comparison.model_dump(mode="json"), "run": verdict.model_dump(mode="json")})
    else:
        print_run(stdout(), verdict, now)
        _print(comparison)
    exit_with([verdict])


def _print(comparison: Replay) -> None:
    from rich.markup import escape
    from rich.table import Table

    from ackproof_faults import fault_of

    console = stdout()
    counts = Table(title=f"replay of {comparison.replays}", title_justify="left", box=None)
    for column in ("", "then", "now"):
        counts.add_column(column, justify="left" if not column else "right")
    counts.add_row("verdict", comparison.then, comparison.now)
    for count in comparison.observed:
        if count.then or count.now:
            counts.add_row(count.what, f"{count.then:,}", f"{count.now:,}")
    for number, step in enumerate(comparison.steps, start=1):
        now = "never" if step.now_acked is None else f"{step.now_acked:,}"
        what = escape(f"{number}. {fault_of(step.fault, step.target, step.hit)}, after acks")
        counts.add_row(what, f"{step.then_acked:,}", now)
    console.print(counts)
    console.print(
        "The replay agrees with the stored run: same verdict, same kinds of anomaly, same faults."
        if comparison.same
        else "The replay differs from the stored run."
    )
