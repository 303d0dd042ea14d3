"""Options, arguments, output and exit codes that commands share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from ackproof.errors import (
    AckproofError,
    DiskError,
    ExitCode,
    RunDirectoryError,
    ScenarioError,
    shown,
)

if TYPE_CHECKING:  # rich is imported by commands that print in colour
    from ackproof.console import Console
    from ackproof.runs.addresses import OpenedRun
    from ackproof.scenario.loader import Configured

LOCAL_SPARK = "local[*]"
RUNS = Path("runs")


def shipped_or_local(path: Path | None) -> Path | None:
    """Return an existing path, else the shipped scenario of that name."""
    from ackproof.scenario.shipped import find

    return path if path is None or path.exists() else find(str(path)) or path


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make each field of a parameter that is a dataclass an option of the command."""
    written = signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation
        for name, each in written.parameters.items()
        if is_dataclass(each.annotation)
    }
    parameters = [
        option
        for name, each in written.parameters.items()
        for option in (_options_of(groups[name]) if name in groups else [each])
    ]

    @wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    called.__signature__ = written.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _options_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


A_SCENARIO = "A scenario file, a folder of scenario files, or the name of a shipped scenario."
OptionalScenario = Annotated[
    Path | None,
    typer.Argument(
        callback=shipped_or_local,
        show_default=False,
        help=f"{A_SCENARIO} Without one, the scenario your-configuration, for your own files.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the scenario, in every configuration; may be repeated. For example: "
        "--set workload.settings.acks=1",
    ),
]
Arm = Annotated[
    str, typer.Option("--arm", metavar="NAME", help="Only the configuration of this name.")
]
OnlyKafka = Annotated[
    str,
    typer.Option(
        "--kafka",
        metavar="VERSION",
        help="Only configurations of this version; if there is none, use all of them with it.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Use this seed instead of the scenario's.")
]
RunDir = Annotated[Path, typer.Argument(help="A run directory, or its name in runs/.")]
#: Of every command that reads or writes runs; any other output is named by `--to`.
Out = Annotated[Path, typer.Option("--out", help="Folder of the run directories.")]
Metrics = Annotated[
    Path | None,
    typer.Option(
        "--metrics",
        metavar="FILE",
        help="Write OpenMetrics text to this file, too: for Prometheus and Grafana.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Budget = Annotated[
    str,
    typer.Option(metavar="TIME", help="Start no further trial after this time: 90s, 30m, 2h."),
]
ShardOption = Annotated[
    str,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Split the configurations over N jobs and run part I: every Nth, from the Ith on.",
    ),
]


def choose_spark(master: str) -> str:
    """Make Spark run at `master` in this process."""
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
        help="Where Spark runs: local[*], spark://HOST:PORT, sc://HOST:PORT (Spark Connect), yarn, "
        "or k8s://https://HOST:PORT.",
    ),
]


def stderr() -> Console:
    from ackproof.console import Console

    return Console(stderr=True)


def stdout() -> Console:
    from ackproof.console import Console

    return Console()


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=str))


def print_line(value: object) -> None:
    """Print one line of JSON, of an output that does not end."""
    typer.echo(json.dumps(value, default=str))


def print_result(text: object, value: object, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        typer.echo(text)


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet. Raises ScenarioError, DiskError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ScenarioError(f"{path} exists", hint="Name another file.") from None
    except OSError as error:
        raise DiskError(
            f"{path}: cannot be written: {error.strerror}", hint="Name another file."
        ) from error


def configurations_of(scenario: Path, **selection: Any) -> list[Configured]:
    """Return the configurations that `scenario.selection.select` selects; print its notes."""
    from ackproof.scenario.selection import select

    return select(scenario, note=print_note, warn=print_warnings, **selection)


def print_note(text: str, style: str = "") -> None:
    stderr().print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def print_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        _print_marked("[yellow]warning:[/]", warning)


def engine(configurations: Sequence[Configured]) -> Any:
    """Return a client of the container engine; None if no cluster of these needs it."""
    from ackproof.execution.runner import engine_of

    return engine_of(configurations)


def write_reports(run_dirs: Sequence[Path], verdicts: Sequence[Any], *, title: str) -> None:
    """Write report.html and junit.xml of these runs into the last one. Raises DiskError."""
    from ackproof.report.ci import write_junit
    from ackproof.report.html import write_html
    from ackproof.runs.directory import disk_errors

    last = run_dirs[-1]
    with disk_errors(last):
        write_html(last / "report.html", run_dirs, title=title)
        write_junit(last / "junit.xml", verdicts)


def with_metrics(
    path: Path | None, runs: Sequence[tuple[Path, Any]], failure: AckproofError | None = None
) -> AckproofError | None:
    """Write the metrics of runs if there is a path; return `failure`, else what prevented it."""
    from ackproof.report.openmetrics import write_metrics
    from ackproof.runs.directory import disk_errors

    if path is None:
        return failure
    try:
        with disk_errors(path):
            write_metrics(path, runs)
    except AckproofError as error:
        return failure or error
    return failure


def exit_with(verdicts: Sequence[Any], failure: AckproofError | None = None) -> NoReturn:
    """End with the exit code of a suite, whose last run may have ended with `failure`."""
    from ackproof.runs.verdict import exit_code

    code = exit_code(verdict.verdict for verdict in verdicts)
    if failure is not None:
        print_error(failure)
        code = code if code == ExitCode.VIOLATED else failure.exit_code
    raise typer.Exit(code)


def budget_seconds(budget: str, option: str = "--budget") -> float | None:
    """Return the seconds of a budget, None if it is empty. Unlike durations it allows hours."""
    from ackproof_faults.conditions.durations import parse_duration

    if not budget:
        return None
    if hours := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?h", budget):
        return float(hours[1]) * 3600
    try:
        return parse_duration(budget)
    except ValueError:
        raise typer.BadParameter(
            f"{budget!r} is not a time; write 90s, 30m or 2h", param_hint=option
        ) from None


@contextmanager
def opened(run: str, out: Path, *, tables: bool = True) -> Iterator[OpenedRun]:
    """Yield a run directory, given as an address, as a path or as a name in `out`.

    Raises as `addresses.opened` and `find_run` do.
    """
    from ackproof.runs import addresses

    if addresses.is_elsewhere(run):
        with addresses.opened(run, tables=tables) as copied:
            yield copied
    else:
        yield addresses.OpenedRun.here(find_run(addresses.path(run), out))


def find_run(run_dir: Path, out: Path) -> Path:
    """Return a run directory, given as a path or as a name in `out`.

    Raises RunDirectoryError if there is none.
    """
    for candidate in (run_dir, out / run_dir):
        if os.path.isdir(candidate):  # unlike `is_dir`, it takes a name of any length
            return candidate.resolve()
    raise RunDirectoryError(
        f"{shown(run_dir)}: no such run directory, neither here nor in {out}",
        hint="`ackproof runs` lists the stored runs.",
    )


def run_directories(paths: Sequence[Path]) -> list[Path]:
    """Return the runs among paths such as ``runs/*``, each once: `runs/latest` is a link to one.

    A path may be a name in `runs/`. Directories of comparisons and shrinks are skipped with a note.
    Of several runs, those without a verdict are skipped, too. Raises RunDirectoryError if a
    directory does not exist, or no run is left.
    """
    from ackproof.runs.directory import is_interrupted, is_of_several_runs

    runs = []
    every = list(dict.fromkeys(find_run(path, RUNS) for path in paths))
    for path in every:
        reason = ""
        if is_of_several_runs(path):
            reason = "it belongs to a comparison or a shrink"
        elif len(every) > 1 and is_interrupted(path):
            reason = f"it has no verdict; judge it with: ackproof check {path}"
        if reason:
            print_note(f"{path}: skipped, because {reason}")
        else:
            runs.append(path)
    if not runs:
        raise RunDirectoryError(
            "no run is among the directories", hint="`ackproof runs` lists the stored runs."
        )
    return runs


def print_error(error: AckproofError) -> None:
    _print_marked("[red]error:[/]", str(error))


def _print_marked(mark: str, text: str) -> None:
    from rich.markup import escape

    stderr().print(f"{mark} {escape(text)}", highlight=False, soft_wrap=True)
