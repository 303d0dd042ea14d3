"""`ackproof clean`: remove what dead runs left behind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json


def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also remove what belongs to runs that are still running.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers, networks, volumes and temporary files of runs whose process has ended.

    Example: [bold]ackproof clean[/]
    """
    from ackproof.containers.engine import connect, remove_leftovers
    from ackproof_spark.spark import scratch

    folders = scratch.remove_orphans()
    removed = remove_leftovers(connect(), everything=everything)
    if as_json:
        print_json({**asdict(removed), "temporary_folders": folders})
        return
    typer.echo(
        f"removed {removed.containers} containers, {removed.networks} networks, "
        f"{removed.volumes} volumes, {folders} temporary folders"
    )
    for kept in removed.kept:
        typer.echo(f"kept {kept}")
