"""`ackproof scenarios`, `faults`, `validate`, `schema`, `schedule`: what scenario files have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.scenario.loader import Configured
    from ackproof_faults.fault_table import Entry
    from ackproof_faults.schedule.sampling import SampledLoop, SampledStep, Sampler

app = typer.Typer(
    invoke_without_command=True, help="List, show and copy the scenarios that ackproof ships."
)

Name = Annotated[str, typer.Argument(help="A case such as B6, or a name that the list has.")]


@app.callback()
def scenarios(context: typer.Context, as_json: options.Json = False) -> None:
    """List the shipped scenarios: case, title, versions. `run`, `predict` … take their names.

    Example: [bold]ackproof scenarios[/]
    """
    if context.invoked_subcommand is None:
        print_list(as_json)


@app.command("list")
def print_list(as_json: options.Json = False) -> None:
    """List the shipped scenarios.

    Example: [bold]ackproof scenarios list[/]
    """
    from ackproof.report.console_tables import print_scenarios
    from ackproof.scenario.loader import load
    from ackproof.scenario.shipped import files, name_of

    entries = [_entry(name_of(path), load(path)) for path in files()]
    if as_json:
        options.print_json(entries)
    else:
        print_scenarios(options.stdout(), entries)


@app.command("show")
def show(name: Name) -> None:
    """Print a shipped scenario file.

    Example: [bold]ackproof scenarios show B6[/]
    """
    typer.echo(_find(name).read_text(encoding="utf-8"), nl=False)


@app.command("copy")
def copy(
    name: Name,
    to: Annotated[Path, typer.Argument(help="The new file, or a folder for it.")] = Path(),
) -> None:
    """Copy a shipped scenario file, to change it.

    Example: [bold]ackproof scenarios copy B6 my-scenario.yaml[/]
    """
    from ackproof.scenario.shipped import without_schema

    source = _find(name)
    target = to / source.name if to.is_dir() else to
    options.write_new(target, without_schema(source.read_text(encoding="utf-8")))
    typer.echo(target)


def _find(name: str) -> Path:
    from ackproof.scenario.shipped import find

    path = find(name)
    if path is None or path.is_dir():
        raise ScenarioError(
            f"{name!r} is not a shipped scenario", hint="`ackproof scenarios` lists them."
        )
    return path


def _entry(name: str, arms: list[Configured]) -> dict[str, Any]:
    scenario = arms[0].scenario
    case = scenario.case
    first_sentence = scenario.description.split(". ", maxsplit=1)[0].removesuffix(".")
    return {
        "name": name,
        "case": case.id if case else None,
        "title": case.title if case else first_sentence,
        "loses_on": case.loses_on if case else "",
        "fixed_in": case.fixed_in if case else "",
        "skip": case.skip if case else "",
        "arms": [
            {
                "name": one.name,
                "kafka": one.scenario.kafka,
                "loss": one.scenario.expect.loss,
            }
            for one in arms
        ],
    }


def validate(scenario: options.ScenarioPath, as_json: options.Json = False) -> None:
    """Check scenario files without running them. Needs no cluster. Exit 2 if one is not valid.

    Warnings are about what is legal and probably not meant; they change no exit code.

    Example: [bold]ackproof validate acks-all[/], [bold]ackproof validate my/scenarios/[/]
    """
    from ackproof.scenario.loader import load, scenario_files
    from ackproof.scenario.selection import warnings_of

    documents: list[dict[str, Any]] = []
    invalid = False
    for path in scenario_files(scenario):
        try:
            configurations = load(path)
        except ScenarioError as error:
            invalid = True
            documents.append({"path": str(path), "error": str(error)})
            if not as_json:
                options.print_error(error)
            continue
        warnings = warnings_of(configurations)
        if not as_json:
            options.print_warnings(warnings)
        for configured in configurations:
            document = {"scenario": configured.scenario.name, "configuration_name": configured.name}
            documents.append({"path": str(path), **document, "warnings": warnings})
            if not as_json:
                typer.echo(
                    f"{path}: {configured.scenario.name} {configured.name}".rstrip() + ": valid"
                )
    if as_json:
        options.print_json(documents)
    if invalid:
        raise typer.Exit(ExitCode.USAGE)


def schema(
    *,
    acked_log: Annotated[
        bool, typer.Option("--acked-log", help="Of a line of an application's acked log.")
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Of what `ackproof audit --json` prints.")
    ] = False,
    advise: Annotated[
        bool, typer.Option("--advise", help="Of what `ackproof advise` prints with --json.")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files, of acked logs, of audits, or of advice.

    Example: [bold]ackproof schema > scenario.v1.json[/]
    """
    if acked_log:
        from ackproof.ledger.acked_log import AckedSend

        options.print_json(AckedSend.model_json_schema())
    elif audit or advise:
        from ackproof.scenario.shipped import schema_of

        options.print_json(schema_of("audit" if audit else "advise"))
    else:
        from ackproof.scenario.model import json_schema

        options.print_json(json_schema())


#: Number of listed turns of an endless loop.
_TURNS = 3

#: Maximum number of listed steps of a configuration, before loops are cut short.
_MOST_STEPS = 10_000


def schedule(
    scenario: options.OneScenario,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Use this seed instead of the scenario's.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the faults that a scenario draws from its seed. The same seed draws the same faults.

    Example: [bold]ackproof schedule nemesis --seed 7[/]
    """
    from ackproof.scenario.loader import load
    from ackproof_faults.schedule.sampling import Sampler

    schedules = {}
    for configured in load(scenario):
        brokers = tuple(range(1, configured.scenario.cluster.brokers + 1))
        sampler = Sampler(seed=configured.scenario.seed if seed is None else seed, brokers=brokers)
        listing = _Listing(sampler)
        schedules[configured.name or configured.scenario.name] = listing.shown(
            sampler.schedule(configured.scenario.faults)
        )
    if as_json:
        options.print_json(schedules)
        return
    for name, steps in schedules.items():
        typer.echo(name)
        for line in _lines(steps, "  "):
            typer.echo(line)


class _Listing:
    """Turns drawn steps into plain data; after `_MOST_STEPS` steps loops end."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._listed = 0

    def shown(self, step: SampledStep) -> Any:
        from ackproof_faults.schedule.sampling import SampledLoop, SampledParallel, SampledSequence

        match step:
            case SampledSequence():
                return [self.shown(one) for one in step.steps]
            case SampledParallel():
                return {"parallel": [self.shown(branch) for branch in step.branches]}
            case SampledLoop():
                return self._loop(step)
        self._listed += 1
        settings = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return {"fault": step.name, **settings}

    def _loop(self, loop: SampledLoop) -> dict[str, Any]:
        count = loop.block.repeat or _TURNS
        turns: list[Any] = []
        while len(turns) < count and self._listed < _MOST_STEPS:
            self._listed += 1  # a turn may have no step
            turn = self._sampler.turn(loop, len(turns))
            turns.append([] if turn is None else self.shown(turn))
        more = count - len(turns)
        return {"turns": turns, **({"more_turns": more} if more else {})}


def _lines(step: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a step; the steps of a block are indented below it."""
    if isinstance(step, list):
        if not step:
            yield f"{indent}nothing"
        for inner in step:
            yield from _lines(inner, indent)
        return
    for key in ("parallel", "turns"):
        if key in step:
            for number, inner in enumerate(step[key]):
                yield f"{indent}{'branch' if key == 'parallel' else 'turn'} {number + 1}"
                yield from _lines(inner, indent + "  ")
            if more := step.get("more_turns"):
                yield f"{indent}and {more:,} more turns"
            return
    rest = ", ".join(f"{key}: {value}" for key, value in step.items() if key != "fault")
    yield f"{indent}{step['fault']}" + (f" ({rest})" if rest else "")


def faults(
    name: Annotated[
        str, typer.Argument(help="A fault, to print its fields, its proof and its needs.")
    ] = "",
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/reference/faults.md.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the faults by family; with a name, print what it does and how it is verified.

    Examples: [bold]ackproof faults kill[/],
    [bold]ackproof faults --markdown > docs/reference/faults.md[/]
    """
    from ackproof.report.console_tables import print_families, print_fault
    from ackproof_faults import registered
    from ackproof_faults.fault_table import entries, markdown

    known = registered()
    if name and name not in known:
        near = get_close_matches(name, known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ScenarioError(
            f"{name!r} is not a fault{guess}", hint="`ackproof faults` lists all of them."
        )
    chosen = {name: known[name]} if name else known
    if as_json:
        schemas = {name: kind.model_json_schema() for name, kind in chosen.items()}
        for entry in entries(chosen):
            schemas[entry.name] |= {"needs": entry.needs, "proof": entry.proof}
        options.print_json(schemas)
    elif as_markdown:
        typer.echo(markdown(registered()), nl=False)
    elif name:
        print_fault(options.stdout(), entries(chosen)[0])
    else:
        print_families(options.stdout(), _families(entries(known)))


def _families(listed: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the faults by family, which is the package of their class; most used first."""
    from ackproof_faults import registered
    from ackproof_faults.registry import FAMILIES

    families: dict[str, list[Entry]] = {family: [] for family in (*FAMILIES, "control")}
    for entry in listed:
        module = registered()[entry.name].__module__.split(".")
        ours = module[0] == "ackproof_faults" and len(module) > 1
        families.setdefault(module[1] if ours else "of other packages", []).append(entry)
    return families
