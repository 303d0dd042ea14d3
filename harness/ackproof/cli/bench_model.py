"""`ackproof bench model`: the reference model's search, in states a second and bytes a state."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer


def model(
    *,
    kafka: Annotated[str, typer.Option(help="Whose rules.")] = "4.1.0",
    records: Annotated[int, typer.Option(min=1, max=7)] = 3,
    kills: Annotated[int, typer.Option(min=0, max=7, help="SIGKILLs.")] = 3,
    power_losses: Annotated[int, typer.Option(min=0, max=7)] = 0,
    clean_stops: Annotated[int, typer.Option(min=0, max=7, help="SIGTERMs.")] = 0,
    shrinks: Annotated[int, typer.Option(min=0, max=7, help="ISR shrinks by lag.")] = 1,
    fencings: Annotated[int, typer.Option(min=0, max=7, help="Sessions lost.")] = 0,
    in_all: Annotated[int | None, typer.Option(min=0, max=7, help="Of all these.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines on standard output.")
    ] = False,
) -> None:
    """Search what an adversary within budgets can do to acked records, and measure the search.

    Example: [bold]ackproof bench model --kafka 3.9.1 --kills 2 --power-losses 1[/]
    """
    from ackproof.bench.model import bench_model
    from ackproof_model.adversary import AdversaryModel, Budgets

    try:
        question = AdversaryModel(
            kafka_version=kafka,
            budgets=Budgets(
                records=records,
                kills=kills,
                power_losses=power_losses,
                clean_stops=clean_stops,
                shrinks=shrinks,
                fencings=fencings,
                in_all=in_all,
            ),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    found = bench_model(workers=workers or os.cpu_count() or 1, question=question)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "states_per_s": found.states_per_s}, indent=2))
        return
    lines = {
        "loss of acked records": "impossible" if found.impossible else "not excluded",
        "bounds": found.bounds,
        "processes": str(found.workers),
        "seconds": f"{found.seconds:.1f}",
        "states/s": f"{found.states_per_s:,.0f}",
        "bytes/state": f"{found.bytes_per_state:.0f}",
    }
    for name, value in lines.items():
        typer.echo(f"{name + ':':24}{value}")
