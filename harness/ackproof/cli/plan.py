"""`ackproof plan`: the shortest loss that a configuration allows, as schedules to run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ackproof.cli import options
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from rich.status import Status

    from ackproof.planning.search import SearchResult
    from ackproof.scenario.model import Scenario
    from ackproof_model.planning import Plan

#: The results of runs, by scenario file.
RunResults = Mapping[Path, dict[str, Any]]


def _at_most(events: str) -> Any:
    """Return a limit for the adversary of the reference model."""
    return typer.Option(min=0, max=7, help=f"Maximum number of {events}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    kills: Annotated[int, _at_most("SIGKILLs of brokers")] = 2
    power_losses: Annotated[int, _at_most("power losses of brokers")] = 1
    clean_stops: Annotated[int, _at_most("controlled shutdowns (SIGTERM)")] = 0
    shrinks: Annotated[int, _at_most("ISR shrinks because of lag")] = 2
    fencings: Annotated[int, _at_most("expired sessions of living brokers")] = 0
    leader_moves: Annotated[int, _at_most("planned elections")] = 0
    reassignments: Annotated[int, _at_most("moves of the first replica, and cancellations")] = 0
    in_all: Annotated[int, typer.Option(min=1, max=7, help="Maximum of these seven together.")] = 3


@options.grouped
def plan(
    scenario: Annotated[
        Path,
        typer.Argument(
            callback=options.shipped_or_local,
            help="A scenario file, or its name. Its faults are ignored.",
        ),
    ],
    *,
    limits: Limits,
    records: Annotated[
        int, typer.Option(min=1, help="Acked records that the schedule waits for in each stage.")
    ] = 200,
    suite: Annotated[
        int,
        typer.Option(
            min=1, max=50, help="If no loss is possible: the maximum number of schedules."
        ),
    ] = 5,
    max_states: Annotated[
        int, typer.Option(min=1, help="End the search after this number of states of the model.")
    ] = 5_000_000,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that search; 0: only this process.")
    ] = 0,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to store searches in, so that an interrupted one is continued.",
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Folder for the scenarios.")
    ] = Path("plans"),
    run: Annotated[
        bool,
        typer.Option("--run", help="Run the scenarios and compare the runs with the prediction."),
    ] = False,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    as_json: options.Json = False,
) -> None:
    """Search for the shortest loss of acked records, and write the schedule that causes it.

    If no loss is possible within the limits, it writes schedules that exercise as many kinds of
    steps of the reference model as possible. Exit code 3: the search ended before it decided, or a
    run decides nothing. With --run, 1: a run differs from its prediction.

    Example: [bold]ackproof plan acks-all --run[/]
    """
    from ackproof.planning.compiler import write_all
    from ackproof.planning.search import search
    from ackproof.scenario.loader import load
    from ackproof_model.adversary import Budgets

    try:
        budgets = Budgets(**asdict(limits))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    planned: list[tuple[Scenario, SearchResult, list[tuple[Path, Plan]]]] = []
    for configured in load(scenario):
        whole = configured.scenario
        name = f"{whole.name}-{configured.name}" if configured.name else whole.name
        name = re.sub(r"[^a-z0-9._-]", "-", name.lower())
        with options.stderr().status(f"{name}: searching") as status:
            result = search(
                whole,
                budgets,
                suite=suite,
                max_states=max_states,
                workers=workers,
                keep=checkpoints,
                say=partial(_update, status, name),
            )
        plans = write_all(whole, result, name=name, records=records, out=to)
        planned.append((whole, result, plans))
    results = _run_all([one for _, _, plans in planned for one in plans], out) if run else {}
    documents = [_document(*one, results) for one in planned]
    if as_json:
        options.print_json(documents)
    else:
        for document in documents:
            _print(document)
    if run:
        _exit([one for document in documents for one in document["scenarios"]])
    if any(document["loss"] == "unknown" for document in documents):
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _update(status: Status, name: str, text: str) -> None:
    status.update(f"{name}: searching {text}")


def _run_all(plans: Sequence[tuple[Path, Plan]], runs: Path) -> RunResults:
    """Run every scenario; return its verdict and the losses in each phase."""
    from ackproof.execution.runner import run_suite
    from ackproof.planning.compiler import phases
    from ackproof.planning.outcome import as_predicted, phase_outcomes
    from ackproof.progress import ConsoleReporter
    from ackproof.scenario.loader import load

    configurations = [load(path)[0] for path, _ in plans]
    suite = run_suite(
        configurations,
        out=runs,
        client=options.engine(configurations),
        reporter=ConsoleReporter(options.stderr()),
    )
    results = {}
    for (path, plan), (run_dir, verdict) in zip(plans, suite, strict=True):
        outcomes = phase_outcomes(run_dir, phases(plan))
        results[path] = {
            "run": str(run_dir),
            "verdict": verdict.verdict,
            "reason": verdict.reason,
            "acked": verdict.observed["acked"],
            "lost": verdict.observed["lost"],
            "phases": [
                {**outcome.phase.model_dump(), "acked": outcome.acked, "lost": outcome.lost}
                for outcome in outcomes
            ],
            "as_foreseen": as_predicted(outcomes),
        }
    return results


def _document(
    scenario: Scenario,
    result: SearchResult,
    plans: Sequence[tuple[Path, Plan]],
    results: RunResults,
) -> dict[str, Any]:
    from ackproof.exploration.guarantee import promise
    from ackproof.planning.compiler import expected_loss, narrative, phases
    from ackproof_model.planning import kinds

    answer = result.answer
    foreseen = {
        "some": "acked records are lost",
        "any": "acked records may be lost",
        "none": "nothing acked is lost",
    }
    return {
        "scenario": scenario.name,
        "kafka_version": scenario.kafka,
        "loss": "possible" if answer.lost else "impossible" if answer.impossible else "unknown",
        "steps": len(answer.trace),
        "trace": [" ".join(map(str, label)) for label, _ in answer.trace],
        "bounds": answer.scope,
        "scenarios": [
            {
                "file": str(path),
                "foreseen": foreseen[expected_loss(plan)],
                "broken_promise": (promise(plan) or None) if plan.lost else None,
                "story": list(narrative(plan, scenario)),
                "kinds": sorted(kinds(plan)),
                "phases": [phase.model_dump() for phase in phases(plan)],
                **results.get(path, {}),
            }
            for path, plan in plans
        ],
    }


def _print(document: dict[str, Any]) -> None:
    def say(text: str) -> None:
        options.stdout().print(text, highlight=False, soft_wrap=True)

    answer = {
        "possible": f"can lose acked records, in {document['steps']} steps of the model",
        "impossible": "cannot lose acked records",
        "unknown": "is not decided: the search ended early (raise --max-states)",
    }[document["loss"]]
    say(f"{document['scenario']} (Kafka {document['kafka_version']}) {answer}")
    say(f"  within: {document['bounds']}")
    if document["loss"] == "possible" and not document["scenarios"]:
        say("  no schedule was written: this loss needs delays that faults cannot cause reliably")
    for schedule in document["scenarios"]:
        say(f"\n{schedule['file']}: {schedule['foreseen']}")
        for line in schedule["story"]:
            say(f"  {line}")
        if why := schedule["broken_promise"]:
            say(f"  Kafka promises to keep these records: {why}.")
        if "run" not in schedule:
            continue
        say(
            f"  run: {schedule['verdict']}, {schedule['lost']} of {schedule['acked']} acked "
            f"records lost ({schedule['run']})"
        )
        for phase in schedule["phases"]:
            say(
                f"    from {phase['after'] or 'the start'} to {phase['until']}: predicted "
                f"{phase['fate']}; {phase['lost']} of {phase['acked']} lost"
            )
        if schedule["as_foreseen"] is None:
            say("    undecided: no stage shows one of the predicted fates; a race may lose nothing")


def _exit(runs: Sequence[dict[str, Any]]) -> NoReturn:
    """End with 1 if a run differs from its prediction, with 3 if a run is inconclusive."""
    from ackproof.runs.verdict import Word, exit_code

    if not runs:
        raise ScenarioError(
            "--run: no schedule was found, so there is nothing to run",
            hint="Raise the limits, or leave --run out to see what the search found.",
        )
    stages = {True: Word.HOLDS, False: Word.VIOLATED, None: Word.INCONCLUSIVE}
    words = list[str]()
    for one in runs:
        words.append(one["verdict"])
        if one["verdict"] != Word.INCONCLUSIVE:
            words.append(stages[one["as_foreseen"]])
    raise typer.Exit(exit_code(words))
