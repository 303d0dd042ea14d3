"""`ackproof init` and `templates`: a scenario for one's own configuration, files for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import own_files
from ackproof.cli.options import Json, grouped, print_json, write_new
from ackproof.errors import ScenarioError


@grouped
def init(
    to: Annotated[Path, typer.Argument(help="The file to write.")] = Path("scenario.yaml"),
    *,
    start_with: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The shipped scenario to start with.")
    ] = own_files.YOUR_CONFIGURATION,
    kafka: Annotated[
        str, typer.Option("--kafka", metavar="VERSION", help="The Kafka version of the scenario.")
    ] = "",
    own: own_files.OwnFiles,
    as_json: Json = False,
) -> None:
    """Write a scenario file for your configuration, to be changed, predicted and run.

    Examples: [bold]ackproof init[/],
    [bold]ackproof init --server server.properties --producer producer.properties[/]
    """
    from ackproof.own_config.overlay import render
    from ackproof.scenario import shipped
    from ackproof.scenario.selection import check_kafka

    source = shipped.find(start_with)
    if source is None or source.is_dir():
        raise ScenarioError(
            f"{start_with!r} is not a shipped scenario", hint="`ackproof scenarios` lists them."
        )
    check_kafka(kafka)
    text, overlay = render(source, own.read(), kafka=kafka)
    if own.given:
        own_files.print_overlay(overlay)
    write_new(to, text)
    if as_json:
        print_json({"scenario": str(to)})
        return
    typer.echo(to)
    typer.echo(f"next: ackproof predict {to}, then ackproof run {to}", err=True)


def templates(
    name: Annotated[str, typer.Argument(help="A template; without it, the list of all.")] = "",
    to: Annotated[
        Path | None, typer.Option("--to", help="Copy its files into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List, print or copy templates: CI pipelines, a Grafana dashboard and its alert.

    Examples: [bold]ackproof templates[/],
    [bold]ackproof templates github --to .github/workflows[/]
    """
    from ackproof.runs.directory import disk_errors
    from ackproof.scenario.shipped import folder

    root = folder("templates", "ci/templates")
    every = {
        path.name: sorted(file for file in path.rglob("*") if file.is_file())
        for path in sorted(root.iterdir())
    }
    if name and name not in every:
        raise typer.BadParameter(f"{name!r} is no template; there are: {', '.join(every)}")
    if to is not None and not name:
        raise typer.BadParameter("name the template to copy", param_hint="--to")
    files = every[name] if name else []
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    if to is not None:
        with disk_errors(to):
            to.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_new(to / file, text)
            typer.echo(to / file)
    elif as_json:
        print_json(texts or {name: [file.name for file in files] for name, files in every.items()})
    elif name:
        typer.echo("\n".join(texts.values()), nl=False)
    else:
        for each, files in every.items():
            typer.echo(f"{each:10}{', '.join(file.name for file in files)}")
