"""`ackproof runs`, `show`, `open` and `report`: list stored runs, print one, its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import compare
from ackproof.cli.options import RUNS, Json, Out, RunDir, find_run, print_json, print_result, stdout
from ackproof.errors import RunDirectoryError

if TYPE_CHECKING:
    from ackproof.runs.verdict import Verdict


def report(
    run_dirs: Annotated[
        list[Path], typer.Argument(help="Run directories, or the directory of one comparison.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            dir_okay=False,
            help="The file to write. Default: report.html in the last one. Of a comparison also a "
            "paper: FILE.md or FILE.pdf.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write report.html again: of one stored run, of several together, or of a comparison.

    Example: [bold]ackproof report runs/latest[/]
    """
    path = write_page([find_run(run_dir, RUNS) for run_dir in run_dirs], to=to)
    print_result(path, {"report": str(path)}, as_json=as_json)


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


_LATEST = RUNS / "latest"


def runs(out: Out = RUNS, as_json: Json = False) -> None:
    """List the stored runs, the newest last.

    Example: [bold]ackproof runs[/]
    """
    if out != RUNS and not out.is_dir():
        raise RunDirectoryError(f"{out}: no such folder", hint="Name a folder of run directories.")
    from ackproof.report.console_tables import print_runs

    stored = list(_stored(out))
    if as_json:
        print_json(
            [
                {
                    "run_id": run_dir.name,
                    "path": str(run_dir),
                    "verdict": verdict.verdict if verdict else None,
                    "lost": verdict.observed.get("lost") if verdict else None,
                    "acked": verdict.observed.get("acked") if verdict else None,
                }
                for run_dir, verdict in stored
            ]
        )
    else:
        print_runs(stdout(), stored)


def show(run_dir: RunDir = _LATEST, out: Out = RUNS, as_json: Json = False) -> None:
    """Print the verdict of a stored run and what it observed.

    Example: [bold]ackproof show runs/latest[/]
    """
    from ackproof.report.terminal import print_run
    from ackproof.runs.directory import read_verdict

    directory = find_run(run_dir, out)
    verdict = read_verdict(directory)
    if as_json:
        print_json(verdict.model_dump(mode="json"))
    else:
        print_run(stdout(), verdict, directory)


def open_report(run_dir: RunDir = _LATEST, out: Out = RUNS, as_json: Json = False) -> None:
    """Open the page of a run or a comparison in the browser. Writes the page if it is missing.

    Example: [bold]ackproof open runs/latest[/]
    """
    directory = find_run(run_dir, out)
    page = directory / "report.html"
    if not page.exists():
        write_page([directory])
    print_result(page, {"report": str(page)}, as_json=as_json)
    if not as_json:
        typer.launch(page.as_uri())


def _stored(out: Path) -> list[tuple[Path, Verdict | None]]:
    from ackproof.runs.directory import read_verdict

    stored: list[tuple[Path, Verdict | None]] = []
    for run_dir in (record.parent for record in sorted(out.glob("*/run.json"))):
        if not run_dir.is_symlink():
            try:
                stored.append((run_dir, read_verdict(run_dir)))
            except RunDirectoryError:
                stored.append((run_dir, None))
    return stored
