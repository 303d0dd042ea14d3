"""`ackproof validate`: check scenario files without running them."""

from __future__ import annotations

import typer

from ackproof.cli.options import Json, ScenarioPath, print_json


def validate(scenario: ScenarioPath, as_json: Json = False) -> None:
    """Check scenario files without running them. Needs no cluster.

    Example: [bold]ackproof validate scenarios/[/]
    """
    from ackproof.scenario.loader import load_all

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
