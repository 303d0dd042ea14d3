"""Writes the scenarios of what was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ackproof.errors import DiskError
from ackproof.planning.compiler import (
    Phase,
    compiled,
    phases,
    story,
    write,
)
from ackproof.planning.search import Found
from ackproof.scenario.model import Scenario
from ackproof_model.planning import Plan, kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A scenario file, what the model foresees of it, and of each phase's records.

    kinds: the kinds of steps of the model that it takes.
    """

    path: Path
    foreseen: str
    story: tuple[str, ...]
    kinds: tuple[str, ...]
    phases: tuple[Phase, ...]


def write_all(
    scenario: Scenario, found: Found, *, name: str, records: int, out: Path
) -> list[Written]:
    """Write the scenario that loses records and its control, or the suite of those that do not.

    Raises DiskError if `out` cannot be written.
    """
    plans: list[tuple[str, Plan]] = []
    if found.loss is not None:
        plans.append((f"{name}-loss", found.loss))
    if found.clean is not None:
        plans.append((f"{name}-clean", found.clean))
    plans += [(f"{name}-safe-{number}", one) for number, one in enumerate(found.nasty, start=1)]
    return [_write(scenario, plan, own, records=records, out=out) for own, plan in plans]


def _write(scenario: Scenario, plan: Plan, name: str, *, records: int, out: Path) -> Written:
    path = out / f"{name}.yaml"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(compiled(scenario, plan, name=name, records=records), path)
    except OSError as error:
        raise DiskError(f"{path} cannot be written: {error}") from error
    return Written(
        path=path,
        foreseen="acked records are lost" if plan.lost else "nothing acked is lost",
        story=tuple(story(plan, scenario)),
        kinds=tuple(sorted(kinds(plan))),
        phases=tuple(phases(plan)),
    )
