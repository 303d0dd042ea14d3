"""`ackproof dashboard`: one page of trends from a warehouse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    place: Annotated[str, typer.Argument(help="A warehouse.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("dashboard.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines on standard output.")
    ] = False,
) -> None:
    """Write one page of trends from a warehouse. The page needs no network and no Spark.

    Example: [bold]ackproof dashboard warehouse --out dashboard.html[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof.report.dashboard import read, write_dashboard
    from ackproof.runs.directory import disk_errors

    location = rows.address(place)
    with rows.opened(location) as warehouse:
        trends = read(warehouse)
    with disk_errors(out):
        write_dashboard(out, trends, title=f"Trends of {place}")
    if as_json:
        typer.echo(json.dumps({"dashboard": str(out), "runs": trends.runs}, indent=2))
    else:
        typer.echo(out)
