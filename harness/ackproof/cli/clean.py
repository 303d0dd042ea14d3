"""`ackproof clean`: what dead runs left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json


def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what belongs to runs that still go on.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers, networks and volumes that dead runs left behind."""
    from dataclasses import asdict

    from ackproof.containers.engine import connect, remove_leftovers

    removed = remove_leftovers(connect(), everything=everything)
    if as_json:
        print_json(asdict(removed))
        return
    typer.echo(
        f"removed {removed.containers} containers, {removed.networks} networks, "
        f"{removed.volumes} volumes"
    )
    for kept in removed.kept:
        typer.echo(f"kept {kept}")
