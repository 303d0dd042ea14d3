"""`ackproof baseline`: detect that availability or latency got worse, beyond noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import Json, RunDirs, print_json, print_result, run_directories, stdout
from ackproof.errors import ExitCode

if TYPE_CHECKING:
    from ackproof.runs.verdict import Verdict

app = typer.Typer(
    no_args_is_help=True,
    help="Compare availability and latency of runs with those of earlier runs.",
)


@app.command()
def write(
    run_dirs: RunDirs,
    *,
    to: Annotated[Path, typer.Option("--to", dir_okay=False, help="The baseline file to write.")],
    as_json: Json = False,
) -> None:
    """Store availability and latency of runs as a baseline. Use about ten runs a configuration.

    Example: [bold]ackproof baseline write runs/2*/ --to baseline.json[/]
    """
    from ackproof.comparison.baseline import Baseline, samples
    from ackproof.runs.directory import write_model

    baseline = Baseline(configurations=samples(_verdicts(run_dirs)))
    write_model(to, baseline)
    print_result(to, baseline.model_dump(mode="json"), as_json=as_json)


@app.command()
def check(
    baseline: Annotated[
        Path, typer.Argument(help="A file that `ackproof baseline write` has written.")
    ],
    run_dirs: RunDirs,
    *,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Ignore changes below this share of the earlier value."),
    ] = 0.1,
    as_json: Json = False,
) -> None:
    """Compare runs with a baseline. Exit 1 if one is worse, 3 if there are too few runs to tell.

    Example: [bold]ackproof baseline check baseline.json runs/2*/[/]
    """
    from ackproof.comparison.baseline import changes, read_baseline, samples

    compared = changes(read_baseline(baseline), samples(_verdicts(run_dirs)), tolerance=tolerance)
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


def _verdicts(run_dirs: Sequence[Path]) -> list[Verdict]:
    from ackproof.runs.directory import read_verdict

    return [read_verdict(run_dir) for run_dir in run_directories(run_dirs)]
