"""`ackproof report`: write the page of stored runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import compare
from ackproof.cli.options import RUNS, Json, find_run, print_json


def report(
    run_dirs: Annotated[
        list[Path], typer.Argument(help="Run directories, or the directory of one comparison.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", dir_okay=False, help="The file to write. Default: report.html in the last one."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write report.html again: of one stored run, of several together, or of a comparison.

    Example: [bold]ackproof report runs/latest[/]
    """
    path = write_page([find_run(run_dir, RUNS) for run_dir in run_dirs], to=to)
    if as_json:
        print_json({"report": str(path)})
    else:
        typer.echo(path)


def write_page(directories: Sequence[Path], *, to: Path | None = None) -> Path:
    """Write the page of run directories, or of the directory of one comparison; return its path.

    Raises RunDirectoryError if a directory is damaged, DiskError if the page cannot be written.
    """
    from ackproof.report.html import write_html
    from ackproof.runs.directory import disk_errors

    if len(directories) == 1 and (directories[0] / "comparison.json").exists():
        return compare.write_stored_page(directories[0], to=to)
    path = to or directories[-1] / "report.html"
    with disk_errors(path):
        write_html(path, directories, title=directories[-1].name)
    return path
