"""`ackproof validate`: check scenario files without running them."""

from __future__ import annotations

from typing import Any

import typer

from ackproof.cli.options import (
    Json,
    ScenarioPath,
    print_error,
    print_json,
    print_warnings,
    scenario_warnings,
)
from ackproof.errors import ExitCode, ScenarioError


def validate(scenario: ScenarioPath, as_json: Json = False) -> None:
    """Check scenario files without running them. Needs no cluster. Exit 2 if one is not valid.

    Warnings are about what is legal and probably not meant; they change no exit code.

    Example: [bold]ackproof validate acks-all[/], [bold]ackproof validate my/scenarios/[/]
    """
    from ackproof.scenario.loader import load, scenario_files

    documents: list[dict[str, Any]] = []
    invalid = False
    for path in scenario_files(scenario):
        try:
            configurations = load(path)
        except ScenarioError as error:
            invalid = True
            documents.append({"path": str(path), "error": str(error)})
            if not as_json:
                print_error(error)
            continue
        warnings = scenario_warnings(configurations)
        if not as_json:
            print_warnings(warnings)
        for one in configurations:
            document = {"scenario": one.scenario.name, "configuration_name": one.name}
            documents.append({"path": str(path), **document, "warnings": warnings})
            if not as_json:
                typer.echo(f"{path}: {one.scenario.name} {one.name}".rstrip() + ": valid")
    if as_json:
        print_json(documents)
    if invalid:
        raise typer.Exit(ExitCode.USAGE)
