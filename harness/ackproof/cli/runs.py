"""`ackproof runs`, `show` and `open`: find a stored run, print it, open its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.compare import write_report_again
from ackproof.cli.options import (
    RUNS,
    Json,
    Out,
    RunDir,
    located,
    print_json,
    stdout,
)
from ackproof.errors import RunDirectoryError

if TYPE_CHECKING:
    from ackproof.runs.verdict import Verdict

_LATEST = RUNS / "latest"


Steps = Annotated[
    bool,
    typer.Option(
        "--steps",
        help="Which steps of the model they have shown, by Kafka version, and which never.",
    ),
]


def runs(out: Out = RUNS, steps: Steps = False, as_json: Json = False) -> None:
    """List the stored runs, the newest last; or the model's steps that they have shown.

    Example: [bold]ackproof runs --steps[/]
    """
    if steps:
        _print_steps(out, as_json=as_json)
        return
    from ackproof.report.console_tables import print_runs

    found = list(_stored(out))
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
                for run_dir, verdict in found
            ]
        )
    else:
        print_runs(stdout(), found)


def show(run_dir: RunDir = _LATEST, out: Out = RUNS, as_json: Json = False) -> None:
    """Print what came of a stored run, as it was judged.

    Example: [bold]ackproof show runs/latest[/]
    """
    from ackproof.report import print_run
    from ackproof.runs.directory import read_verdict

    place = located(run_dir, out)
    verdict = read_verdict(place)
    if as_json:
        print_json(verdict.model_dump(mode="json"))
    else:
        print_run(stdout(), verdict, place)


def open_report(run_dir: RunDir = _LATEST, out: Out = RUNS, as_json: Json = False) -> None:
    """Open the page of a run or a comparison in the browser; write it first if there is none.

    Example: [bold]ackproof open runs/latest[/]
    """
    from ackproof.report import write_html
    from ackproof.runs.directory import disk_errors

    place = located(run_dir, out)
    page = place / "report.html"
    if not page.exists() and (place / "comparison.json").exists():
        write_report_again(place, to=None)
    elif not page.exists():
        with disk_errors(page):
            write_html(page, [place], title=place.name)
    if as_json:
        print_json({"report": str(page)})
        return
    typer.echo(page)
    typer.launch(page.as_uri())


def _print_steps(out: Path, *, as_json: bool) -> None:
    from ackproof.judgement import model_coverage
    from ackproof.runs.directory import read_model
    from ackproof.runs.trace import TraceRecord

    found = model_coverage.by_version(
        read_model(path.parent, path.name, TraceRecord)
        for path in sorted(out.glob("*/trace.json"))
        if not path.parent.is_symlink()
    )
    every = {**found, "all versions": model_coverage.of_all(found.values())}
    if as_json:
        print_json(
            {
                version: {
                    "runs": one.runs,
                    "controller": one.controller,
                    "replicas": one.replicas,
                    "never": {
                        "controller": one.unseen_of_controller,
                        "replicas": one.unseen_of_replicas,
                    },
                }
                for version, one in every.items()
            }
        )
        return
    if len(found) == 1:
        every = dict(found)  # the sum would say the same again
    for version, one in every.items():
        name = f"Kafka {version}" if version in found else version
        typer.echo(f"{name}, {one.runs} run{'' if one.runs == 1 else 's'}")
        for line in model_coverage.lines(one):
            typer.echo(f"  {line}")


def _stored(out: Path) -> list[tuple[Path, Verdict | None]]:
    """Return the run directories under `out` with their verdicts; None for one without."""
    from ackproof.runs.directory import read_verdict

    found: list[tuple[Path, Verdict | None]] = []
    for record in sorted(out.glob("*/run.json")):
        if record.parent.is_symlink():
            continue
        try:
            found.append((record.parent, read_verdict(record.parent)))
        except RunDirectoryError:
            found.append((record.parent, None))
    return found
