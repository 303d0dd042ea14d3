"""What commands share: options and arguments, output, exit codes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape

from ackproof.console import Console
from ackproof.errors import AckproofError, ExitCode, RunDirectoryError, ScenarioError, shown

if TYPE_CHECKING:
    from ackproof.scenario.changes import Overrides, Overriding
    from ackproof.scenario.loader import Configured
    from ackproof.scenario.types import YamlPath

LOCAL_SPARK = "local[*]"
RUNS = Path("runs")


def shipped_or_local(path: Path | None) -> Path | None:
    """Return a path that exists as it is, and otherwise the shipped scenario of that name."""
    from ackproof.scenario.shipped import find

    return path if path is None or path.exists() else find(str(path)) or path


ScenarioPath = Annotated[
    Path,
    typer.Argument(
        callback=shipped_or_local,
        help="A scenario file, a folder of scenario files, or the name of a shipped scenario.",
    ),
]
OptionalScenario = Annotated[
    Path | None,
    typer.Argument(
        callback=shipped_or_local,
        show_default=False,
        help="A scenario file, a folder of scenario files, or the name of a shipped scenario. "
        "Without one, the scenario your-configuration, for your own files.",
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
RunDir = Annotated[Path, typer.Argument(help="A run directory, or its name in runs/.")]
RunDirs = Annotated[list[Path], typer.Argument(help="Run directories that have a verdict.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run directories.")]
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

# Limits for the adversary of the reference model: how often each kind of event may happen.
Kills = Annotated[int, typer.Option(min=0, max=7, help="Maximum number of SIGKILLs of brokers.")]
PowerLosses = Annotated[
    int,
    typer.Option(min=0, max=7, help="Maximum number of power losses of brokers."),
]
CleanStops = Annotated[
    int, typer.Option(min=0, max=7, help="Maximum number of controlled shutdowns (SIGTERM).")
]
Shrinks = Annotated[
    int, typer.Option(min=0, max=7, help="Maximum number of ISR shrinks because of lag.")
]
Fencings = Annotated[
    int, typer.Option(min=0, max=7, help="Maximum number of expired sessions of living brokers.")
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
        help="Where Spark runs: local[*], spark://HOST:PORT, or sc://HOST:PORT (Spark Connect).",
    ),
]


def stderr() -> Console:
    """Return the console for everything that is not a result."""
    return Console(stderr=True)


def stdout() -> Console:
    """Return the console for results."""
    return Console()


def print_json(value: object) -> None:
    """Print a result as JSON."""
    typer.echo(json.dumps(value, indent=2, default=str))


def check_kafka(version: str) -> None:
    """Raise ScenarioError if this is no version that ackproof can run; '' is the default."""
    from ackproof.kafka_versions import numbers

    if version:
        try:
            numbers(version)
        except ValueError as error:
            raise ScenarioError(f"--kafka: {error}") from None


def configurations_of(
    scenario: Path,
    *,
    shard: str,
    arm: str = "",
    kafka: str = "",
    overriding: Overriding | None = None,
    skipped: bool = False,
) -> list[Configured]:
    """Return the configurations of a scenario file or folder that are to be run.

    `arm` and `kafka` select by name and version, then `shard`. If no configuration has the version,
    all of them get it. What a case says to skip is left out, with a note, unless `skipped`.
    Warnings are printed.

    Raises ScenarioError if nothing is selected, AckproofError if all is skipped.
    """
    from ackproof.scenario import changes
    from ackproof.scenario.loader import load_all
    from ackproof.scenario.shards import Shard, share

    check_kafka(kafka)
    loaded = load_all(scenario, overriding or changes.none)
    if kafka and all(one.scenario.kafka != kafka for one in loaded):
        loaded = _with_version(loaded, kafka, scenario, overriding)
    selected = [
        one for one in loaded if arm in ("", one.name) and kafka in ("", one.scenario.kafka)
    ]
    if not selected:
        names = list(dict.fromkeys(f"{one.name} ({one.scenario.kafka})" for one in loaded))
        raise ScenarioError(
            f"{scenario}: no configuration is {' and '.join(filter(None, (arm, kafka)))}",
            hint=f"Its configurations: {shortened(names)}.",
        )
    print_warnings(scenario_warnings(selected))
    if skipped:
        return selected
    for path, reason in sorted({(one.path, one.skip) for one in selected if one.skip}):
        stderr().print(f"{path}: skipped: {reason}", highlight=False, soft_wrap=True, markup=False)
    every = [one for one in selected if not one.skip]
    if not every:
        raise AckproofError(f"{scenario}: nothing to run: every configuration is skipped")
    found = share(every, Shard.parse(shard))
    if not found:
        raise ScenarioError(
            f"--shard {shard}: this shard is empty, since there are only {len(every)} "
            "configurations",
            hint=f"Use at most {len(every)} shards.",
        )
    return found


def _with_version(
    loaded: Sequence[Configured], kafka: str, scenario: Path, overriding: Overriding | None
) -> list[Configured]:
    """Return the configurations under another Kafka version, those that become equal once."""
    from ackproof.scenario import changes
    from ackproof.scenario.loader import load_all

    def with_version(document: Mapping[str, Any]) -> Overrides:
        given = overriding(document) if overriding else changes.none(document)
        version = changes.Overrides(merged={"kafka": kafka}, sources={("kafka",): "--kafka"})
        return changes.joined(given, version)

    had = ", ".join(dict.fromkeys(one.scenario.kafka for one in loaded))
    stderr().print(f"{scenario}: written for Kafka {had}, used with {kafka}", highlight=False)
    found: list[Configured] = []
    for one in load_all(scenario, with_version):
        if all(one.scenario != other.scenario for other in found):
            found.append(one)
    return found


def print_warnings(warnings: Sequence[str]) -> None:
    """Print on standard error what is legal, and probably not meant."""
    for warning in warnings:
        stderr().print(f"[yellow]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)


def scenario_warnings(configurations: Sequence[Configured]) -> list[str]:
    """Return the warnings about these scenarios, each once.

    What only some configurations of a file ignore, such as the setting of an older version, is
    meant for the others.
    """
    from ackproof.scenario.documents import line_of
    from ackproof.scenario.validation import warnings

    found = [(one, dict(warnings(one.scenario))) for one in configurations]

    def where(one: Configured, place: YamlPath) -> str:
        return one.overrides.source_of(place) or f"{one.path}:{line_of(one.path, place)}"

    return list(
        dict.fromkeys(
            f"{where(one, place)}: {'.'.join(map(str, place))}: {problem}"
            for one, problems in found
            for place, problem in problems.items()
            if all(place in others for other, others in found if other.path == one.path)
        )
    )


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Return names with commas; of many only the first ones."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def engine(configurations: Sequence[Configured]) -> Any:
    """Return a client of the container engine; None if every cluster is an attached one."""
    from ackproof.containers.engine import connect

    boots = any(one.scenario.cluster.attach is None for one in configurations)
    return connect() if boots else None


def exit_with(verdicts: Sequence[Any], failure: AckproofError | None = None) -> NoReturn:
    """End with the exit code of a suite, whose last run may have ended with `failure`."""
    from ackproof.runs.verdict import exit_code

    code = exit_code(list(verdicts))
    if failure is not None:
        print_error(failure)
        code = code if code == ExitCode.VIOLATED else failure.exit_code
    raise typer.Exit(code)


def budget_seconds(budget: str) -> float | None:
    """Return the seconds of a budget, None if it is empty. Unlike a duration it may be in hours."""
    from ackproof_faults.conditions.durations import parse_duration

    if not budget:
        return None
    if hours := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?h", budget):
        return float(hours[1]) * 3600
    try:
        return parse_duration(budget)
    except ValueError:
        raise typer.BadParameter(
            f"{budget!r} is not a time; write 90s, 30m or 2h", param_hint="--budget"
        ) from None


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

    A name is looked for in `runs/`, too. Directories of comparisons and shrinks are skipped, with a
    note, and so are runs without a verdict beside others. Raises RunDirectoryError if a directory
    does not exist, or no run is left.
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
            note = f"{path}: skipped, because {reason}"
            stderr().print(note, highlight=False, soft_wrap=True, markup=False)
        else:
            runs.append(path)
    if not runs:
        raise RunDirectoryError(
            "no run is among the directories", hint="`ackproof runs` lists the stored runs."
        )
    return runs


def print_error(error: AckproofError) -> None:
    stderr().print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
