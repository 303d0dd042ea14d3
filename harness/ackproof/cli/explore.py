"""`ackproof explore`: how much of what the model reaches runs have passed through."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import options
from ackproof.cli.plan import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Budget(Limits):
    """The limits of `plan`, together at most two unless the user says more."""

    in_all: Annotated[int, typer.Option(min=1, max=7, help="Maximum of these five together.")] = 2


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
    out: options.Out = options.RUNS,
    as_json: options.Json = False,
) -> None:
    """Show how much of what the model reaches for a configuration was seen on brokers.

    The model lists every pair of a step and a change of leader, ISR and ELR that an adversary
    reaches within the limits. Each stored run of the same configuration whose traces the model
    explains is mapped to the pairs that it passed through. For each pair that is missing, the
    shortest schedule that passes through it is searched. Needs no cluster.

    Example: [bold]ackproof explore acks-all --kills 1 --shrinks 1[/]
    """
    from ackproof.exploration.coverage import covered, reached
    from ackproof.exploration.document import document, lines
    from ackproof.planning.search import question
    from ackproof.scenario.loader import load
    from ackproof_model.adversary import Budgets

    try:
        budgets = Budgets(**asdict(limits))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    stored = [path.parent for path in out.glob("*/scenario.yaml") if not path.parent.is_symlink()]
    documents = []
    # Configurations that the model does not distinguish have one answer.
    asked = {question(one.scenario, budgets): one.scenario for one in reversed(load(scenario))}
    for own in reversed(asked.values()):
        with options.stderr().status(f"{own.name}: searching") as status:
            everything = reached(own, budgets, max_states=max_states)
            coverage = covered(everything, sorted(stored), say=status.update)
        if as_json:
            documents.append(document(own, coverage))
            continue
        for line in lines(own, coverage):
            options.stdout().print(line, highlight=False, soft_wrap=True, markup=False)
    if as_json:
        options.print_json(documents)
