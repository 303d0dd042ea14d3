"""What commands have in common: their options, and how they speak and end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from ackproof.errors import AckproofError, ExitCode, RunDirectoryError

LOCAL_SPARK = "local[*]"
RUNS = Path("runs")

ScenarioPath = Annotated[Path, typer.Argument(help="A scenario file, or a folder of them.")]
Out = Annotated[Path, typer.Option("--out", help="Where run directories go.")]
RunDir = Annotated[Path, typer.Argument(help="A run directory, or its name under runs/.")]
Budget = Annotated[
    str, typer.Option(metavar="TIME", help="Begin no trial after so long: 90s, 30m, 2h.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines on standard output.")]


def choose_spark(master: str) -> str:
    """Check where Spark is to run, and remember it."""
    from ackproof_spark.errors import AnalysisError
    from ackproof_spark.spark import session

    try:
        session.choose(master)
    except AnalysisError as error:
        raise typer.BadParameter(str(error)) from None
    return master


Spark = Annotated[
    str,
    typer.Option(
        "--spark",
        metavar="MASTER",
        callback=choose_spark,
        help="Where Spark runs: local[*], spark://HOST:PORT, or sc://HOST:PORT (Spark Connect).",
    ),
]


def stderr() -> Console:
    """Return where everything goes that is no result."""
    return Console(stderr=True)


def stdout() -> Console:
    """Return where results go."""
    return Console()


def print_json(value: object) -> None:
    """Print for machines; a reader that has seen enough (`| head`) must not change the verdict."""
    try:
        typer.echo(json.dumps(value, indent=2, default=str))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def engine(configurations: Sequence[Any]) -> Any:
    """Return a client of the container engine; None if every cluster is there already."""
    from ackproof.containers.engine import connect

    ours = any(one.scenario.cluster.attach is None for one in configurations)
    return connect() if ours else None


def exit_with(verdicts: Sequence[Any], failure: AckproofError | None = None) -> NoReturn:
    """End with the code of the suite: 1 outranks 4 outranks 3."""
    from ackproof.runs.verdict import exit_code

    code = exit_code(list(verdicts))
    if failure is not None:
        complain(failure)
        code = code if code == ExitCode.VIOLATED else failure.exit_code
    raise typer.Exit(code)


def budget_seconds(budget: str) -> float | None:
    """Return the seconds of a budget, None for none; hours are meant for budgets alone."""
    from ackproof_faults.conditions.durations import parse_duration

    if not budget:
        return None
    if hours := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?h", budget):
        return float(hours[1]) * 3600
    try:
        return parse_duration(budget)
    except ValueError:
        raise typer.BadParameter(
            f"{budget!r} is not a time ('90s', '30m', '2h')", param_hint="--budget"
        ) from None


def located(run_dir: Path, out: Path) -> Path:
    """Return a run directory, given by path or by name under `out`; raise RunDirectoryError."""
    for candidate in (run_dir, out / run_dir):
        if candidate.is_dir():
            return candidate.resolve()
    raise RunDirectoryError(f"{run_dir}: no such run", hint="`ackproof runs` lists them.")


def complain(error: AckproofError) -> None:
    """Print an error as the one message it is."""
    stderr().print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
