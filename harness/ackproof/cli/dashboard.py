"""`ackproof dashboard`: one page of trends from a warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli.options import LOCAL_SPARK, Json, Spark, print_json


def dashboard(
    warehouse: Annotated[str, typer.Argument(help="A folder, or an address that Spark can read.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path(
        "dashboard.html"
    ),
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Write a page with the trends of all runs in a warehouse. The page needs no network.

    Example: [bold]ackproof dashboard warehouse --out dashboard.html[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof.report.dashboard import read, write_dashboard
    from ackproof.runs.directory import disk_errors

    location = rows.address(warehouse)
    with rows.opened(location) as opened:
        trends = read(opened)
    with disk_errors(out):
        write_dashboard(out, trends, title=f"Trends of {warehouse}")
    if as_json:
        print_json({"dashboard": str(out), "runs": trends.runs})
    else:
        typer.echo(out)
