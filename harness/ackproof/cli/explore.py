"""`ackproof explore`: how much of what the model reaches runs have passed through."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import options
from ackproof.cli.plan import Limits
from ackproof.errors import ExitCode

if TYPE_CHECKING:
    from ackproof.exploration.coverage import Coverage
    from ackproof.exploration.folder import Folder
    from ackproof.scenario.loader import Configured
    from ackproof.scenario.model import Scenario
    from ackproof_model.coverage import Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget(Limits):
    """The limits of `plan`, together at most two unless the user says more."""

    in_all: Annotated[int, typer.Option(min=1, max=7, help="Maximum of these seven together.")] = 2


@options.grouped
def explore(
    scenario: Annotated[
        Path,
        typer.Argument(
            callback=options.shipped_or_local,
            help="A scenario file, or its name. Its faults are ignored.",
        ),
    ],
    *,
    limits: _Budget,
    max_states: Annotated[
        int, typer.Option(min=1, help="Refuse a budget that reaches more states of the model.")
    ] = 5_000_000,
    time_limit: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="TIME",
            show_default=False,
            help="Run schedules on brokers for this time (90s, 30m, 2h): those that lead to "
            "missing pairs, and changes of those that led to new ones. A further call continues.",
        ),
    ] = "",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Use this seed instead of the scenario's. Processes that explore one folder at "
            "the same time need different ones; without this option they get them.",
        ),
    ] = None,
    out: options.Out = options.RUNS,
    as_json: options.Json = False,
) -> None:
    """Show how much of what the model reaches for a configuration was seen on brokers.

    The model lists every pair of a step and a change of leader, ISR and ELR that an adversary
    reaches within the limits. Each stored run of the same configuration whose traces the model
    explains is mapped to the pairs that it passed through. For each pair that is missing, the
    shortest schedule that passes through it is searched. Without --for it needs no cluster.

    With --for, the results are in the folder explored-NAME of --out. Exit code 1: a run
    contradicts the model.

    Example: [bold]ackproof explore acks-all --kills 1 --shrinks 1[/]

    Example: [bold]ackproof explore acks-all --for 30m[/]
    """
    from ackproof.exploration.coverage import reached
    from ackproof.exploration.document import document, lines
    from ackproof.exploration.folder import Exploration, Folder
    from ackproof.planning.search import question
    from ackproof.scenario.loader import load
    from ackproof_model.adversary import Budgets

    try:
        budgets = Budgets(**asdict(limits))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    seconds = options.budget_seconds(time_limit, "--for")
    # Configurations that are explored alike have one answer.
    asked = {
        Exploration.of(one.scenario, question(one.scenario, budgets)).model_dump_json(): one
        for one in reversed(load(scenario))
    }
    found: list[tuple[Scenario, Coverage]] = []
    for own in reversed(asked.values()):
        with options.stderr().status(f"{own.scenario.name}: searching"):
            everything = reached(own.scenario, budgets, max_states=max_states)
        name = own.scenario.name if len(asked) == 1 else f"{own.scenario.name}-{own.name}"
        name = re.sub(r"[^a-z0-9._-]", "-", name.lower())
        exploration = Exploration.of(own.scenario, everything.model)
        folder = Folder(out / f"explored-{name}", exploration)
        if seconds is not None:
            _explore(own, everything, folder, seed, seconds / len(asked))
        found.append((own.scenario, _covered(everything, folder, out)))
    if as_json:
        options.print_json([document(*one) for one in found])
    else:
        for explored, coverage in found:
            for line in lines(explored, coverage):
                options.stdout().print(line, highlight=False, soft_wrap=True, markup=False)
    if any(one.findings for _, coverage in found for one in coverage.explored.values()):
        raise typer.Exit(ExitCode.VIOLATED)


def _explore(
    configured: Configured, everything: Reached, folder: Folder, seed: int | None, seconds: float
) -> None:
    """Run schedules on brokers for this time, and store their results in the folder."""
    from ackproof.exploration.loop import Explorer
    from ackproof.planning.compiler import client_holds
    from ackproof.progress import ConsoleReporter

    scenario = configured.scenario
    folder.open()
    reporter = ConsoleReporter(options.stderr())
    engine = options.engine([configured])
    ways = folder.ways(everything, reporter.note, client_holds(scenario))
    with folder.seed(seed, first=scenario.seed) as own:
        explorer = Explorer(
            scenario=scenario,
            everything=everything,
            folder=folder,
            ways=ways,
            seed=own,
            engine=engine,
            reporter=reporter,
        )
        until = time.monotonic() + seconds
        try:
            explorer.explore(lambda: time.monotonic() < until)
        except KeyboardInterrupt:
            reporter.note(f"the same command continues in {folder.path}")
            raise


def _covered(everything: Reached, folder: Folder, out: Path) -> Coverage:
    """Return what the stored runs and the folder's results passed through."""
    from ackproof.exploration.coverage import covered

    stored = [path.parent for path in out.glob("*/scenario.yaml") if not path.parent.is_symlink()]
    with options.stderr().status("reading") as status:
        if not folder.begun:
            return covered(everything, sorted(stored), say=status.update)
        folder.open()
        return covered(
            everything,
            sorted(stored),
            explored=folder.results(),
            ways=folder.ways(everything, status.update),
            say=status.update,
        )
