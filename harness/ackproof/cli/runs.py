"""`ackproof runs` and `report`: list stored runs, compare them with a baseline, show them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import compare, options
from ackproof.cli.options import RUNS, Json, Out, find_run, print_json, stdout
from ackproof.errors import ExitCode, RunDirectoryError

if TYPE_CHECKING:
    from ackproof.runs.addresses import OpenedRun
    from ackproof.runs.verdict import Verdict


def runs(
    run_dirs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Only these run directories. Default: all in --out.", show_default=False
        ),
    ] = None,
    *,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Compare availability and latency of the runs with this baseline: end with 1 if "
            "they are worse, with 3 if there are too few runs to tell.",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Ignore changes below this share of the baseline's value."),
    ] = 0.1,
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Store availability and latency of the runs as a baseline. Use about ten runs of "
            "each configuration.",
        ),
    ] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> None:
    """List the stored runs, the newest last, or compare them with a baseline of earlier runs.

    Examples: [bold]ackproof runs[/], [bold]ackproof runs --write-baseline baseline.json[/],
    [bold]ackproof runs runs/2026*/ --baseline baseline.json[/]
    """
    if out != RUNS and not out.is_dir():
        raise RunDirectoryError(f"{out}: no such folder", hint="Name a folder of run directories.")
    if baseline and write_baseline:
        raise typer.BadParameter(
            "a baseline is either read or written", param_hint="--baseline, --write-baseline"
        )
    chosen = [find_run(run_dir, out) for run_dir in run_dirs] if run_dirs else _run_dirs(out)
    if write_baseline:
        _write_baseline(write_baseline, _verdicts(chosen), as_json=as_json)
    elif baseline:
        _compare(baseline, _verdicts(chosen), tolerance, as_json=as_json)
    else:
        _list(chosen, as_json=as_json)


def _run_dirs(out: Path) -> list[Path]:
    found = (record.parent for record in sorted(out.glob("*/run.json")))
    return [run_dir for run_dir in found if not run_dir.is_symlink()]


def _verdicts(run_dirs: Sequence[Path]) -> list[Verdict]:
    from ackproof.runs.directory import read_verdict

    return [read_verdict(run_dir) for run_dir in options.run_directories(run_dirs)]


def _list(run_dirs: Sequence[Path], *, as_json: bool) -> None:
    from ackproof.report.console_tables import print_runs

    stored = [(run_dir, _verdict(run_dir)) for run_dir in run_dirs]
    if not as_json:
        print_runs(stdout(), stored)
        return
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


def _verdict(run_dir: Path) -> Verdict | None:
    from ackproof.runs.directory import read_verdict

    try:
        return read_verdict(run_dir)
    except RunDirectoryError:
        return None


def _write_baseline(path: Path, verdicts: Sequence[Verdict], *, as_json: bool) -> None:
    from ackproof.comparison.baseline import Baseline, samples
    from ackproof.runs.directory import write_model

    baseline = Baseline(configurations=samples(verdicts))
    write_model(path, baseline)
    options.print_result(path, baseline.model_dump(mode="json"), as_json=as_json)


def _compare(path: Path, verdicts: Sequence[Verdict], tolerance: float, *, as_json: bool) -> None:
    from ackproof.comparison.baseline import changes, read_baseline, samples

    compared = changes(read_baseline(path), samples(verdicts), tolerance=tolerance)
    if as_json:
        print_json([change.model_dump(mode="json") for change in compared])
    else:
        for change in compared:
            stdout().print(
                f"{change.configuration}: {change.measure} {change.before:.4g} before, "
                f"{change.now:.4g} now: {change.judged} (p = {change.p_value:.2g})",
                highlight=False,
                markup=False,
            )
    judged = {change.judged for change in compared}
    if "worse" in judged:
        raise typer.Exit(ExitCode.VIOLATED)
    if "too few runs" in judged or not compared:
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def report(
    run_dirs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN_DIRS",
            help="Run directories, also at an address that Spark knows (s3a://…), their names in "
            "--out, or the directory of one comparison. Default: runs/latest.",
            show_default=False,
        ),
    ] = None,
    *,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            dir_okay=False,
            metavar="FILE",
            help="Write the page to this file; of a comparison also a paper, FILE.md or FILE.pdf. "
            "Default: report.html in the last one, unless it is current.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser, too.")
    ] = False,
    out: Out = RUNS,
    as_json: Json = False,
) -> None:
    """Show stored runs or a comparison: print the verdicts, and write the page if need be.

    Examples: [bold]ackproof report[/], [bold]ackproof report runs/latest --open[/],
    [bold]ackproof report runs/DIR --to decision.md[/]
    """
    from ackproof.runs.addresses import is_elsewhere

    with ExitStack() as stack:
        opened = [
            stack.enter_context(options.opened(run_dir, out, tables=False))
            for run_dir in run_dirs or [str(out / "latest")]
        ]
        directory = opened[0].folder
        if len(opened) == 1 and (directory / "comparison.json").exists():
            document = _of_comparison(directory, to, as_json=as_json)
        else:
            document = _of_runs(opened, to, as_json=as_json)
    if as_json:
        print_json(document)
    if browser:
        page = document["report"]
        typer.launch(page if is_elsewhere(page) else Path(page).absolute().as_uri())


def _of_runs(opened: Sequence[OpenedRun], to: Path | None, *, as_json: bool) -> dict[str, Any]:
    """Write the page of runs unless it is current, print them, and return the document.

    Raises RunDirectoryError if a directory is damaged, DiskError if the page cannot be written.
    """
    from ackproof.report.html import write_html
    from ackproof.report.terminal import print_run
    from ackproof.runs.directory import disk_errors, is_interrupted, read_verdict

    directories = [run.folder for run in opened]
    page = to or directories[-1] / "report.html"
    if to or len(directories) > 1 or not _is_current(page, directories[0] / "verdict.json"):
        with disk_errors(page):
            write_html(page, directories, title=directories[-1].name)
        opened[-1].store()
    verdicts = []
    for run in opened:
        if is_interrupted(run.folder):
            note = f"{run.address}: it has no verdict; judge it with: ackproof check {run.address}"
            options.print_note(note)
            continue
        verdicts.append(read_verdict(run.folder))
        if not as_json:
            print_run(stdout(), verdicts[-1], run.folder, address=run.address)
    place = to or f"{opened[-1].address}/report.html"
    if not as_json:
        stdout().print(f"Report: {place}", soft_wrap=True, highlight=False, markup=False)
    return {"report": str(place), "verdicts": [one.model_dump(mode="json") for one in verdicts]}


def _is_current(page: Path, of: Path) -> bool:
    """Whether a page was written after the file that it shows."""
    return page.exists() and of.exists() and page.stat().st_mtime_ns >= of.stat().st_mtime_ns


def _of_comparison(directory: Path, to: Path | None, *, as_json: bool) -> dict[str, Any]:
    """Write the page or paper of a stored comparison, print it, and return the document.

    Raises RunDirectoryError if the comparison is damaged, or one of its runs is missing.
    """
    from ackproof.comparison.store import resume
    from ackproof.comparison.summary import Summary
    from ackproof.report.paper import FORMATS, require_writable, write_paper
    from ackproof.report.premise import of_comparison
    from ackproof.report.terminal import print_comparison
    from ackproof.runs.directory import read_model

    summary = read_model(directory, "comparison.json", Summary)
    store = resume(directory)
    results = list(store.results())
    if not results:
        raise RunDirectoryError(
            f"{directory}: no trial of this comparison has ended, so there is no page to write",
            hint=f"Continue it with: ackproof compare --resume {directory}",
        )
    page = to or directory / "report.html"
    verdicts = [verdict for _, verdict in results]
    if page.suffix in FORMATS:
        require_writable(page)
        facts = of_comparison(store, verdicts)
        write_paper(page, summary, verdicts, facts, title=store.configurations[0].path.stem)
    elif to or not _is_current(page, directory / "comparison.json"):
        compare.write_page(page, store, summary, results)
    if not as_json:
        run_dirs = [run_dir for run_dir, _ in results]
        print_comparison(stdout(), summary, verdicts, run_dirs, page)
    return {"report": str(page), "verdicts": [one.model_dump(mode="json") for one in verdicts]}
