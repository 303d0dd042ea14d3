"""`ackproof plan`: the shortest loss a configuration allows, as a schedule that makes it happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ackproof.cli.options import (
    LOCAL_SPARK,
    RUNS,
    Json,
    Spark,
    engine,
    print_json,
    stderr,
    stdout,
)
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from rich.status import Status

    from ackproof.planning.files import Written
    from ackproof.planning.search import Found
    from ackproof.scenario.model import Scenario

_Budget = Annotated[int, typer.Option(min=0, max=7)]


def plan(
    scenario: Annotated[Path, typer.Argument(help="A scenario file; its faults do not matter.")],
    *,
    kills: Annotated[int, typer.Option(min=0, max=7, help="SIGKILLs at most.")] = 2,
    power_losses: _Budget = 1,
    clean_stops: Annotated[int, typer.Option(min=0, max=7, help="SIGTERMs.")] = 0,
    shrinks: Annotated[int, typer.Option(min=0, max=7, help="ISR shrinks by lag.")] = 2,
    fencings: Annotated[int, typer.Option(min=0, max=7, help="Sessions lost.")] = 0,
    in_all: Annotated[int, typer.Option(min=1, max=7, help="Of all these.")] = 3,
    records: Annotated[
        int, typer.Option(min=1, help="Acked records to wait for in each stage.")
    ] = 200,
    suite: Annotated[
        int, typer.Option(min=1, max=50, help="Schedules at most, if nothing can be lost.")
    ] = 5,
    max_states: Annotated[int, typer.Option(min=1, help="Of the search.")] = 5_000_000,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: none but this one.")] = 0,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="A folder to keep searches in: one that was interrupted, or ended early, goes on."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the scenarios go.")] = Path("plans"),
    run: Annotated[
        bool, typer.Option("--run", help="Run them, and hold the runs against the model.")
    ] = False,
    runs: Annotated[Path, typer.Option("--runs", help="Where run directories go.")] = RUNS,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Search the shortest loss a configuration allows, and write the schedule that makes it happen.

    Where nothing can be lost within these budgets, schedules that take as many kinds of steps of
    the model as possible are written instead.

    Example: [bold]ackproof plan scenarios/acks-all.yaml --run[/]
    """
    from ackproof.planning.files import write_all
    from ackproof.planning.search import find
    from ackproof.scenario.loader import load
    from ackproof_model.adversary import Budgets

    try:
        budgets = Budgets(
            kills=kills,
            power_losses=power_losses,
            clean_stops=clean_stops,
            shrinks=shrinks,
            fencings=fencings,
            in_all=in_all,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    found_all = []
    for one in load(scenario):
        whole = one.scenario
        name = f"{whole.name}-{one.name}".replace(" ", "-").lower() if one.name else whole.name
        with stderr().status(f"{name}: searching") as status:
            say = _sayer(status, name)
            found = find(
                whole,
                budgets,
                suite=suite,
                max_states=max_states,
                workers=workers,
                keep=keep,
                say=say,
            )
        written = write_all(whole, found, name=name, records=records, out=out)
        found_all.append((whole, found, written))
    held = _run_all([path for _, _, written in found_all for path in written], runs) if run else {}
    documents = [_document(*each, held) for each in found_all]
    if as_json:
        print_json(documents)
    else:
        for document in documents:
            _tell(document)
    if run:
        _exit([one for document in documents for one in document["scenarios"]])
    if any(not found.answer.lost and not found.answer.impossible for _, found, _ in found_all):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _sayer(status: Status, name: str) -> Callable[[str], None]:
    """Return what tells of a search on a terminal."""
    return lambda text: status.update(f"{name}: searching {text}")


def _run_all(written: Sequence[Written], runs: Path) -> dict[Path, dict[str, Any]]:
    """Run every scenario; return by its file how the run ended, and what became of each phase."""
    from ackproof.execution.suite import run_suite
    from ackproof.planning.outcome import as_foreseen, hold
    from ackproof.progress import ConsoleReporter
    from ackproof.scenario.loader import load

    outcomes = {}
    configurations = [load(one.path)[0] for one in written]
    results = run_suite(
        configurations,
        out=runs,
        client=engine(configurations),
        reporter=ConsoleReporter(stderr()),
    )
    for one, (run_dir, verdict) in zip(written, results, strict=True):
        found = hold(run_dir, one.phases)
        outcomes[one.path] = {
            "run": str(run_dir),
            "verdict": verdict.verdict,
            "reason": verdict.reason,
            "acked": verdict.observed["acked"],
            "lost": verdict.observed["lost"],
            "phases": [
                {**held.phase.model_dump(), "acked": held.acked, "lost": held.lost}
                for held in found
            ],
            "as_foreseen": as_foreseen(found),
        }
    return outcomes


def _document(
    scenario: Scenario, found: Found, written: Sequence[Written], held: dict[Path, dict[str, Any]]
) -> dict[str, Any]:
    """Return what was found for one configuration, as plain data."""
    answer = found.answer
    return {
        "scenario": scenario.name,
        "kafka_version": scenario.kafka,
        "loss": "possible" if answer.lost else "impossible" if answer.impossible else "unknown",
        "steps": len(answer.trace),
        "trace": [" ".join(map(str, label)) for label, _ in answer.trace],
        "bounds": answer.bounds,
        "scenarios": [
            {
                "file": str(one.path),
                "foreseen": one.foreseen,
                "story": list(one.story),
                "kinds": list(one.kinds),
                "phases": [phase.model_dump() for phase in one.phases],
                **held.get(one.path, {}),
            }
            for one in written
        ],
    }


def _tell(document: dict[str, Any]) -> None:
    say = stdout()
    what = {
        "possible": f"can lose acked records, in {document['steps']} steps of the model",
        "impossible": "cannot lose acked records",
        "unknown": "is not decided: the search ended early (raise --max-states)",
    }[document["loss"]]
    say.print(f"{document['scenario']} (Kafka {document['kafka_version']}) {what}", highlight=False)
    say.print(f"  within: {document['bounds']}", highlight=False, soft_wrap=True)
    if document["loss"] == "possible" and not document["scenarios"]:
        say.print("  no schedule brings it about where nothing but cut links delays anything")
    for one in document["scenarios"]:
        say.print(f"\n{one['file']}: {one['foreseen']}", highlight=False, soft_wrap=True)
        for line in one["story"]:
            say.print(f"  {line}", highlight=False, soft_wrap=True)
        if "run" in one:
            say.print(
                f"  run: {one['verdict']}, {one['lost']} of {one['acked']} acked records lost "
                f"({one['run']})",
                highlight=False,
                soft_wrap=True,
            )
        for phase in one["phases"] if "run" in one else ():
            place = f"from {phase['after'] or 'the start'} to {phase['until']}"
            say.print(
                f"    {place}: foreseen {phase['fate']}; {phase['lost']} of {phase['acked']} lost",
                highlight=False,
                soft_wrap=True,
            )


def _exit(runs: Sequence[dict[str, Any]]) -> NoReturn:
    """End with 1 if a run was not as foreseen, 3 if one could not tell."""
    if any(one["verdict"] == "inconclusive" for one in runs):
        raise typer.Exit(ExitCode.INCONCLUSIVE)
    if not runs:
        raise ScenarioError("there is nothing to run: no schedule was found")
    ok = all(one["as_foreseen"] and one["verdict"] == "holds" for one in runs)
    raise typer.Exit(ExitCode.HOLDS if ok else ExitCode.VIOLATED)
