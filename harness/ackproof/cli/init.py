"""`ackproof init`: write a scenario for one's own configuration."""

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
