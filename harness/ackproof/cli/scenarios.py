"""`ackproof scenarios`, `faults` and `validate`: what scenario files have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.scenario.loader import Configured
    from ackproof_faults.fault_table import Entry
    from ackproof_faults.schedule.sampling import SampledLoop, SampledStep, Sampler


def scenarios(
    name: Annotated[
        str,
        typer.Argument(help="Print this one: a case such as B6, or a name that the list has."),
    ] = "",
    as_json: options.Json = False,
) -> None:
    """List the shipped scenarios: case, title, versions. `run`, `predict` … take their names.

    `ackproof init --from NAME` writes one to a file, to be changed.

    Examples: [bold]ackproof scenarios[/], [bold]ackproof scenarios B6[/]
    """
    from ackproof.report.console_tables import print_scenarios
    from ackproof.scenario.loader import load
    from ackproof.scenario.shipped import files, name_of

    if name:
        path = _find(name)
        text = path.read_text(encoding="utf-8")
        if as_json:
            options.print_json(_entry(name_of(path), load(path)) | {"text": text})
        else:
            typer.echo(text, nl=False)
        return
    entries = [_entry(name_of(path), load(path)) for path in files()]
    if as_json:
        options.print_json(entries)
    else:
        print_scenarios(options.stdout(), entries)


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


class Schema(StrEnum):
    """The documents that have a JSON Schema."""

    SCENARIO = "scenario"
    ACKED_LOG = "acked-log"
    DELIVERY_LOG = "delivery-log"
    AUDIT = "audit"
    ADVISE = "advise"


def validate(
    scenario: Annotated[
        Path | None, typer.Argument(callback=options.shipped_or_local, help=options.A_SCENARIO)
    ] = None,
    *,
    schedule: Annotated[
        bool,
        typer.Option(
            "--schedule",
            help="Also print the faults that each configuration draws from its seed. The same seed "
            "draws the same faults.",
        ),
    ] = False,
    seed: options.Seed = None,
    json_schema: Annotated[
        Schema | None,
        typer.Option(
            metavar="NAME",
            help="Print the JSON Schema of scenario files (scenario), of a line of an acked log "
            "(acked-log) or a delivery log (delivery-log), or of what a command prints with --json "
            "(audit, advise).",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check scenario files without running them. Needs no cluster. Exit 2 if one is not valid.

    Warnings are about what is legal and probably not meant; they change no exit code.

    Examples: [bold]ackproof validate my/scenarios/[/],
    [bold]ackproof validate nemesis --schedule --seed 7[/],
    [bold]ackproof validate --json-schema scenario > scenario.v1.json[/]
    """
    from ackproof.scenario.loader import load, scenario_files
    from ackproof.scenario.selection import warnings_of

    if (scenario is None) == (json_schema is None):
        raise typer.BadParameter(
            "name either a scenario or --json-schema, and not both", param_hint="SCENARIO"
        )
    if json_schema is not None:
        options.print_json(_schema(json_schema))
        return
    assert scenario is not None
    if seed is not None and not schedule:
        raise typer.BadParameter("it is for --schedule", param_hint="--seed")
    documents: list[dict[str, Any]] = []
    for path in scenario_files(scenario):
        try:
            configurations = load(path)
        except ScenarioError as error:
            documents.append({"path": str(path), "error": str(error)})
            if not as_json:
                options.print_error(error)
            continue
        warnings = warnings_of(configurations)
        if not as_json:
            options.print_warnings(warnings)
        for configured in configurations:
            name = {"scenario": configured.scenario.name, "configuration_name": configured.name}
            drawn = {"schedule": _drawn(configured, seed)} if schedule else {}
            documents.append({"path": str(path), **name, "warnings": warnings, **drawn})
            if not as_json:
                _print_valid(documents[-1])
    if as_json:
        options.print_json(documents)
    if any("error" in document for document in documents):
        raise typer.Exit(ExitCode.USAGE)


def _print_valid(document: dict[str, Any]) -> None:
    name = f"{document['scenario']} {document['configuration_name']}".rstrip()
    typer.echo(f"{document['path']}: {name}: valid")
    if "schedule" in document:
        for line in _lines(document["schedule"], "  "):
            typer.echo(line)


def _schema(of: Schema) -> dict[str, Any]:
    match of:
        case Schema.SCENARIO:
            from ackproof.scenario.model import json_schema

            return json_schema()
        case Schema.ACKED_LOG:
            from ackproof.ledger.acked_log import AckedSend

            return AckedSend.model_json_schema()
        case Schema.DELIVERY_LOG:
            from ackproof.ledger.delivery_log import DeliveryEvent

            return DeliveryEvent.model_json_schema()
        case Schema.AUDIT | Schema.ADVISE:
            from ackproof.scenario.shipped import schema_of

            return schema_of(of)


#: Number of listed turns of an endless loop.
_TURNS = 3

#: Maximum number of listed steps of a configuration, before loops are cut short.
_MOST_STEPS = 10_000


def _drawn(configured: Configured, seed: int | None) -> Any:
    """Return the steps that a configuration draws from a seed, by default its own."""
    from ackproof_faults.schedule.sampling import Sampler

    scenario = configured.scenario
    brokers = tuple(range(1, scenario.cluster.brokers + 1))
    sampler = Sampler(seed=scenario.seed if seed is None else seed, brokers=brokers)
    return _Listing(sampler).shown(sampler.schedule(scenario.faults))


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
    as_json: options.Json = False,
) -> None:
    """List the faults by family; with a name, print what it does and how it is verified.

    Example: [bold]ackproof faults kill[/]
    """
    from ackproof.report.console_tables import print_families, print_fault
    from ackproof_faults import registered
    from ackproof_faults.fault_table import entries

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
