"""`ackproof replay` and `shrink`: repeat a stored run, and reduce it to the steps that lose."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import options
from ackproof.errors import ExitCode, RunDirectoryError

if TYPE_CHECKING:
    from ackproof.reproduction.oracle import ShrinkStore
    from ackproof.reproduction.replay import Replay


def shrink(
    run_dir: Annotated[
        Path | None, typer.Argument(help="A run directory that lost records, or its name in runs/.")
    ] = None,
    *,
    trials: Annotated[
        int, typer.Option(min=1, max=100, help="Maximum number of trials of each candidate.")
    ] = 3,
    losses: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="A candidate loses if at least this many of its trials lose."
        ),
    ] = 2,
    budget: options.Budget = "",
    anomaly: Annotated[
        str,
        typer.Option(help="The anomaly to reproduce; by default lost records, if the run has any."),
    ] = "",
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Continue the interrupted work stored in DIR."),
    ] = None,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    as_json: options.Json = False,
) -> None:
    """Reduce a losing run to the steps that cause the loss, by trials on a real cluster.

    Removes steps first, then shortens durations, records and brokers. Candidates that cannot lose
    according to the reference model are not run. Writes the result as a scenario and as a text.
    Exit code 0: nothing more can be removed; 3: the loss did not happen again, or the budget ran
    out.

    Examples: [bold]ackproof shrink runs/latest --budget 10m[/],
    [bold]ackproof shrink --resume runs/20260101T000000Z-acks-shrink[/]
    """
    from ackproof.cluster.pool import ClusterPool
    from ackproof.progress import ConsoleReporter, DetailReporter
    from ackproof.reproduction.oracle import LossOracle
    from ackproof.reproduction.oracle import resume as resume_stored
    from ackproof.reproduction.shrink import Shrink
    from ackproof.reproduction.summary import headline, write_story
    from ackproof.trials import on_clusters

    if (run_dir is None) == (resume is None):
        raise typer.BadParameter(
            "name either a run directory or --resume DIR, and not both", param_hint="RUN_DIR"
        )
    if losses > trials:
        raise typer.BadParameter(
            f"{losses} is more than --trials {trials}: require at most as many losses as trials",
            param_hint="--losses",
        )
    began = time.monotonic()
    seconds = options.budget_seconds(budget)
    reporter = ConsoleReporter(options.stderr())
    notes: tuple[str, ...] = ()
    if resume is not None:
        store = resume_stored(resume.resolve())
    else:
        assert run_dir is not None
        store, notes = _planned(
            options.find_run(run_dir, out), out, anomaly=anomaly, trials=trials, losses=losses
        )
    reporter.note(f"shrinking in {store.directory}")
    client = options.engine([store.configured])
    with ClusterPool(client, reuse=True, say=reporter.note) as pool:
        run_trial = on_clusters(
            out=store.directory / "runs",
            client=client,
            reporter=DetailReporter(reporter),
            pool=pool,
        )
        deadline = None if seconds is None else began + seconds
        oracle = LossOracle(store, run_trial, reporter, deadline=deadline)
        try:
            result = Shrink(oracle, notes=notes).run()
        except KeyboardInterrupt:
            reporter.note(f"continue with: ackproof shrink --resume {store.directory}")
            raise
    story = write_story(store.directory, result)
    if as_json:
        options.print_json({**result.model_dump(mode="json"), "directory": str(store.directory)})
    else:
        console = options.stdout()
        console.print(story.read_text(encoding="utf-8"), markup=False, highlight=False)
        console.print(headline(result), style="bold")
        if result.minimal:
            console.print(store.directory / result.minimal, soft_wrap=True, highlight=False)
    if result.ended == "budget":
        reporter.note(f"continue with: ackproof shrink --resume {store.directory}")
    raise typer.Exit(ExitCode.HOLDS if result.ended == "minimal" else ExitCode.INCONCLUSIVE)


def _planned(
    run_dir: Path, out: Path, *, anomaly: str, trials: int, losses: int
) -> tuple[ShrinkStore, tuple[str, ...]]:
    """Store the plan for shrinking a run; return it with the notes on the run."""
    from ackproof.reproduction.oracle import ShrinkPlan, create
    from ackproof.reproduction.recorded_run import recorded_run
    from ackproof.runs.directory import fresh_name, read_verdict

    verdict = read_verdict(run_dir)
    observed = [name for name in verdict.predicted if verdict.observed.get(name)]
    target = anomaly or ("lost" if "lost" in observed else next(iter(observed), ""))
    if target not in observed:
        raise RunDirectoryError(
            f"{run_dir.name} has no {target or 'lost'} records to reproduce; it has: "
            f"{', '.join(observed) or 'no anomaly at all'}",
            hint="Name a run that lost records, or another anomaly with --anomaly.",
        )
    recorded = recorded_run(run_dir)
    plan = ShrinkPlan(
        shrink_id=fresh_name(out, recorded.scenario.name, "shrink", datetime.now(UTC)),
        run_id=run_dir.name,
        anomaly=target,
        trials=trials,
        losses=losses,
    )
    return create(out, plan, recorded.configured), recorded.notes


def replay(
    run_dir: options.RunDir,
    *,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    as_json: options.Json = False,
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

    then = options.find_run(run_dir, out)
    recorded = recorded_run(then)
    reporter = ConsoleReporter(options.stderr())
    for note in recorded.notes:
        reporter.note(note)
    if not (then / "verdict.json").exists():
        judge_run(then)
    configured = recorded.configured
    now, verdict = run(
        configured,
        out=out,
        client=options.engine([configured]),
        reporter=reporter,
        replays=then.name,
    )
    comparison = compare_runs(then, now, notes=recorded.notes)
    write_model(now / "replay.json", comparison)
    options.write_reports([now], [verdict], title=now.name)
    if as_json:
        options.print_json(
            {**comparison.model_dump(mode="json"), "run": verdict.model_dump(mode="json")}
        )
    else:
        print_run(options.stdout(), verdict, now)
        _print(comparison)
    options.exit_with([verdict])


def _print(comparison: Replay) -> None:
    from rich.markup import escape
    from rich.table import Table

    from ackproof_faults import fault_of

    console = options.stdout()
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
