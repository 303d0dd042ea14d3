"""`ackproof report`: the page, from what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import compare
from ackproof.cli.options import Json, print_json


def report(
    run_dirs: Annotated[list[Path], typer.Argument(help="One run directory, or several.")],
    to: Annotated[Path | None, typer.Option("--to", help="The file to write.")] = None,
    as_json: Json = False,
) -> None:
    """Write report.html again from one stored run, one page for several, or a comparison's.

    Example: [bold]ackproof report runs/latest[/]
    """
    from ackproof.report import write_html
    from ackproof.runs.directory import disk_errors

    resolved = [run_dir.resolve() for run_dir in run_dirs]
    if len(resolved) == 1 and (resolved[0] / "comparison.json").exists():
        _say_report(compare.write_report_again(resolved[0], to=to), as_json=as_json)
        return
    path = to or resolved[-1] / "report.html"
    with disk_errors(path):
        write_html(path, resolved, title=resolved[-1].name)
    _say_report(path, as_json=as_json)


def _say_report(path: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"report": str(path)})
    else:
        typer.echo(path)
