"""`ackproof schedule`: the faults that a scenario draws from its seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import Json, print_json, shipped_or_local

if TYPE_CHECKING:
    from ackproof_faults.schedule.sampling import SampledLoop, SampledStep, Sampler

#: How many turns of an endless loop are shown.
_TURNS = 3

#: The most steps of a configuration that are listed, before loops are cut short.
_MOST_STEPS = 10_000


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
        listing = _Listing(sampler)
        found[one.name or one.scenario.name] = listing.shown(sampler.schedule(one.scenario.faults))
    if as_json:
        print_json(found)
        return
    for name, steps in found.items():
        typer.echo(name)
        for line in _lines(steps, "  "):
            typer.echo(line)


class _Listing:
    """Turns drawn steps into plain data; after `_MOST_STEPS` steps no loop has another turn."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._listed = 0

    def shown(self, step: SampledStep) -> Any:
        """Return a fault's settings, or a block of steps."""
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
        for one in step:
            yield from _lines(one, indent)
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
