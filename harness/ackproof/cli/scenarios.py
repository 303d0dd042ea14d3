"""`ackproof scenarios`: the scenarios that ackproof ships."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import Json, print_json, stdout
from ackproof.errors import DiskError, ScenarioError

if TYPE_CHECKING:
    from ackproof.scenario.loader import Configured

app = typer.Typer(
    invoke_without_command=True, help="List, show and copy the scenarios that ackproof ships."
)

Name = Annotated[str, typer.Argument(help="A case such as B6, or a name that the list has.")]


@app.callback()
def scenarios(context: typer.Context, as_json: Json = False) -> None:
    """List the shipped scenarios: case, title, versions. `run`, `predict` … take their names.

    Example: [bold]ackproof scenarios[/]
    """
    if context.invoked_subcommand is None:
        print_list(as_json)


@app.command("list")
def print_list(as_json: Json = False) -> None:
    """List the shipped scenarios.

    Example: [bold]ackproof scenarios list[/]
    """
    from ackproof.report.console_tables import print_scenarios
    from ackproof.scenario.loader import load
    from ackproof.scenario.shipped import files, name_of

    entries = [_entry(name_of(path), load(path)) for path in files()]
    if as_json:
        print_json(entries)
    else:
        print_scenarios(stdout(), entries)


@app.command("show")
def show(name: Name) -> None:
    """Print a shipped scenario file.

    Example: [bold]ackproof scenarios show B6[/]
    """
    typer.echo(_find(name).read_text(encoding="utf-8"), nl=False)


@app.command("copy")
def copy(
    name: Name,
    to: Annotated[Path, typer.Argument(help="The new file, or a folder for it.")] = Path(),
) -> None:
    """Copy a shipped scenario file, to change it.

    Example: [bold]ackproof scenarios copy B6 my-scenario.yaml[/]
    """
    source = _find(name)
    target = to / source.name if to.is_dir() else to
    # The first line of a shipped file names the schema by its place in the checkout.
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if "yaml-language-server" not in line)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ScenarioError(f"{target} exists", hint="Name another file.") from None
    except OSError as error:
        raise DiskError(
            f"{target}: cannot be written: {error.strerror}", hint="Name another place."
        ) from error
    typer.echo(target)


def _find(name: str) -> Path:
    from ackproof.scenario.shipped import find

    found = find(name)
    if found is None or found.is_dir():
        raise ScenarioError(
            f"{name!r} is not a shipped scenario", hint="`ackproof scenarios` lists them."
        )
    return found


def _first_sentence(text: str) -> str:
    return text.split(". ", maxsplit=1)[0].removesuffix(".")


def _entry(name: str, arms: list[Configured]) -> dict[str, Any]:
    """Return what the list says of a scenario file."""
    scenario = arms[0].scenario
    case = scenario.case
    return {
        "name": name,
        "case": case.id if case else None,
        "title": case.title if case else _first_sentence(scenario.description),
        "loses_on": case.loses_on if case else "",
        "fixed_in": case.fixed_in if case else "",
        "skip": case.skip if case else "",
        "arms": [
            {
                "name": one.name,
                "kafka": one.scenario.kafka,
                "loss": one.scenario.expect.loss,
            }
            for one in arms
        ],
    }
