"""Writes the scenarios for the plans of a search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ackproof.errors import DiskError
from ackproof.planning.compiler import (
    Phase,
    compile_plan,
    narrative,
    phases,
    write,
)
from ackproof.planning.search import SearchResult
from ackproof.scenario.model import Scenario
from ackproof_model.planning import Plan, kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScenario:
    """A scenario file that was written for a plan.

    prediction: whether acked records are lost. narrative: a sentence for each stage. kinds: the
    kinds of model steps in the plan. phases: the fate of the records of each stage.
    """

    path: Path
    prediction: str
    narrative: tuple[str, ...]
    kinds: tuple[str, ...]
    phases: tuple[Phase, ...]


def write_all(
    scenario: Scenario, result: SearchResult, *, name: str, records: int, out: Path
) -> list[PlannedScenario]:
    """Write the scenario that loses records and its control, or the scenarios without loss.

    Raises DiskError if `out` cannot be written.
    """
    plans: list[tuple[str, Plan]] = []
    if result.loss is not None:
        plans.append((f"{name}-loss", result.loss))
    if result.clean is not None:
        plans.append((f"{name}-clean", result.clean))
    plans += [(f"{name}-safe-{number}", one) for number, one in enumerate(result.lossless, start=1)]
    return [_write(scenario, plan, own, records=records, out=out) for own, plan in plans]


def _write(
    scenario: Scenario, plan: Plan, name: str, *, records: int, out: Path
) -> PlannedScenario:
    path = out / f"{name}.yaml"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(compile_plan(scenario, plan, name=name, records=records), path)
    except OSError as error:
        raise DiskError(
            f"{path} cannot be written: {error}", hint="Name another folder with --out."
        ) from error
    return PlannedScenario(
        path=path,
        prediction="acked records are lost" if plan.lost else "nothing acked is lost",
        narrative=tuple(narrative(plan, scenario)),
        kinds=tuple(sorted(kinds(plan))),
        phases=tuple(phases(plan)),
    )
