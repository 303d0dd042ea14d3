"""`ackproof shrink`: the few steps of a losing schedule that matter."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import (
    LOCAL_SPARK,
    RUNS,
    Budget,
    Json,
    Out,
    Spark,
    budget_seconds,
    engine,
    located,
    print_json,
    stderr,
    stdout,
)
from ackproof.errors import ExitCode, RunDirectoryError

if TYPE_CHECKING:
    from ackproof.reproduction.store import ShrinkStore


def shrink(
    run_dir: Annotated[
        Path | None, typer.Argument(help="A run directory that lost, or its name under runs/.")
    ] = None,
    *,
    trials: Annotated[
        int, typer.Option(min=1, max=100, help="Trials of each candidate, at most.")
    ] = 3,
    losses: Annotated[
        int, typer.Option(min=1, max=100, help="So many of them must lose for it to count.")
    ] = 2,
    budget: Budget = "",
    anomaly: Annotated[
        str, typer.Option(help="What must be seen again; by default what the run was violated by.")
    ] = "",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with an interrupted shrinking.")
    ] = None,
    out: Out = RUNS,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Reduce a losing run to the steps that matter, on a real cluster.

    Steps go first, then durations, records and brokers; what is left is written as a scenario and
    as a story. What the model excludes is not run. Ends with 0 if nothing more can be taken away,
    with 3 if the loss was not seen again or the budget ran out.

    Examples: [bold]ackproof shrink runs/latest --budget 10m[/],
    [bold]ackproof shrink --resume runs/20260101T000000Z-acks-shrink[/]
    """
    from ackproof.cluster.pool import ClusterPool
    from ackproof.progress import ConsoleReporter, Within
    from ackproof.reproduction.oracle import LossOracle
    from ackproof.reproduction.shrink import Shrink
    from ackproof.reproduction.store import resume as resume_stored
    from ackproof.reproduction.summary import headline, write_story
    from ackproof.trials import on_clusters

    if (run_dir is None) == (resume is None):
        raise typer.BadParameter("name a run, or --resume DIR", param_hint="RUN_DIR")
    if losses > trials:
        raise typer.BadParameter(
            f"{losses} of {trials} trials can never lose", param_hint="--losses"
        )
    began = time.monotonic()
    seconds = budget_seconds(budget)
    reporter = ConsoleReporter(stderr())
    notes: tuple[str, ...] = ()
    if resume is not None:
        store = resume_stored(resume.resolve())
    else:
        assert run_dir is not None
        store, notes = _planned(
            located(run_dir, out), out, anomaly=anomaly, trials=trials, losses=losses
        )
    reporter.note(f"shrinking in {store.directory}")
    client = engine([store.configured])
    with ClusterPool(client, reuse=True, say=reporter.note) as pool:
        run_trial = on_clusters(
            out=store.directory / "runs", client=client, reporter=Within(reporter), pool=pool
        )
        deadline = None if seconds is None else began + seconds
        oracle = LossOracle(store, run_trial, reporter, deadline=deadline)
        try:
            found = Shrink(oracle, notes=notes).run()
        except KeyboardInterrupt:
            reporter.note(f"go on with: ackproof shrink --resume {store.directory}")
            raise
    story = write_story(store.directory, found)
    if as_json:
        print_json({**found.model_dump(mode="json"), "directory": str(store.directory)})
    else:
        console = stdout()
        console.print(story.read_text(encoding="utf-8"), markup=False, highlight=False)
        console.print(headline(found), style="bold")
        if found.minimal:
            console.print(store.directory / found.minimal, soft_wrap=True, highlight=False)
    if found.ended == "budget":
        reporter.note(f"go on with: ackproof shrink --resume {store.directory}")
    raise typer.Exit(ExitCode.HOLDS if found.ended == "minimal" else ExitCode.INCONCLUSIVE)


def _planned(
    run_dir: Path, out: Path, *, anomaly: str, trials: int, losses: int
) -> tuple[ShrinkStore, tuple[str, ...]]:
    """Return a new shrinking of a stored run; raise RunDirectoryError if there is nothing to do."""
    from ackproof.reproduction.recorded_run import recorded_run
    from ackproof.reproduction.store import ShrinkPlan, create
    from ackproof.runs.directory import fresh_name, read_verdict

    verdict = read_verdict(run_dir)
    seen = [name for name in verdict.predicted if verdict.observed.get(name)]
    wanted = anomaly or ("lost" if "lost" in seen else next(iter(seen), ""))
    if wanted not in seen:
        had = f"it had {', '.join(seen)}" if seen else "it had no anomaly at all"
        raise RunDirectoryError(
            f"{run_dir.name} had no {wanted or 'lost'} records, so nothing can be shrunk: {had}",
            hint="Name a run that lost, or with --anomaly what it had.",
        )
    recorded = recorded_run(run_dir)
    plan = ShrinkPlan(
        shrink_id=fresh_name(out, recorded.scenario.name, "shrink", datetime.now(UTC)),
        run_id=run_dir.name,
        anomaly=wanted,
        trials=trials,
        losses=losses,
    )
    return create(out, plan, recorded.configured), recorded.notes
