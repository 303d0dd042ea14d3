"""`ackproof schedule`: the faults that a scenario draws from its seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import Json, print_json, shipped_or_local

if TYPE_CHECKING:
    from ackproof_faults.schedule.sampling import SampledStep, Sampler

#: How many turns of an endless loop are shown.
_TURNS = 3


def schedule(
    scenario: Annotated[
        Path, typer.Argument(callback=shipped_or_local, help="A scenario file, or its name.")
    ],
    seed: Annotated[
        int | None, typer.Option(min=0, help="Use this seed instead of the scenario's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the faults that a scenario draws from its seed. The same seed draws the same faults.

    Example: [bold]ackproof schedule nemesis --seed 7[/]
    """
    from ackproof.scenario.loader import load
    from ackproof_faults.schedule.sampling import Sampler

    found = {}
    for one in load(scenario):
        brokers = tuple(range(1, one.scenario.cluster.brokers + 1))
        sampler = Sampler(seed=one.scenario.seed if seed is None else seed, brokers=brokers)
        found[one.name or one.scenario.name] = _shown(
            sampler, sampler.schedule(one.scenario.faults)
        )
    if as_json:
        print_json(found)
        return
    for name, steps in found.items():
        typer.echo(name)
        for line in _lines(steps, "  "):
            typer.echo(line)


def _shown(sampler: Sampler, step: SampledStep) -> Any:
    """Return a drawn step as plain data: a fault's settings, or a block of steps."""
    from ackproof_faults.schedule.sampling import SampledLoop, SampledParallel, SampledSequence

    match step:
        case SampledSequence():
            return [_shown(sampler, one) for one in step.steps]
        case SampledParallel():
            return {"parallel": [_shown(sampler, branch) for branch in step.branches]}
        case SampledLoop():
            turns = [sampler.turn(step, number) for number in range(step.block.repeat or _TURNS)]
            return {"turns": [[] if turn is None else _shown(sampler, turn) for turn in turns]}
    settings = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"fault": step.name, **settings}


def _lines(step: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a step; the steps of a block are indented below it."""
    if isinstance(step, list):
        if not step:
            yield f"{indent}nothing"
        for one in step:
            yield from _lines(one, indent)
        return
    for key in ("parallel", "turns"):
        if key in step:
            for number, inner in enumerate(step[key]):
                yield f"{indent}{'branch' if key == 'parallel' else 'turn'} {number + 1}"
                yield from _lines(inner, indent + "  ")
            return
    rest = ", ".join(f"{key}: {value}" for key, value in step.items() if key != "fault")
    yield f"{indent}{step['fault']}" + (f" ({rest})" if rest else "")
