"""Finds what a scenario's configuration can lose, and the schedules that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.errors import ScenarioError
from ackproof.planning.question import question
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import (
    AdversaryModel,
    AdversaryResult,
    Budgets,
    search,
)
from ackproof_model.planning import (
    Plan,
    covering_plans,
    realized,
    with_clean_stops,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the search found for a configuration.

    answer: with the fewest perturbations that lose something by a schedule, else by a race only,
    else with all that were allowed. loss: the schedule that loses what the answer's trace does;
    clean: the same with controlled shutdowns, if nothing is lost then. nasty: where nothing can be
    lost, the schedules that come closest.
    """

    answer: AdversaryResult
    loss: Plan | None
    clean: Plan | None
    nasty: tuple[Plan, ...]


def find(
    scenario: Scenario,
    budgets: Budgets,
    *,
    suite: int,
    max_states: int,
    workers: int = 0,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Found:
    """Search with one perturbation, then two, and so on, up to what `budgets` allow in all.

    At most `suite` schedules are returned where nothing can be lost. `workers` and `keep` are
    `search`'s.

    Raises ScenarioError for what the model does not know, and if `keep` cannot be used.
    """
    answer: AdversaryResult | None = None
    race: AdversaryResult | None = None
    for asked in _questions(scenario, budgets):
        say(f"{asked.budgets.perturbations} perturbations")
        try:
            answer = search(asked, workers=workers, max_states=max_states, keep=keep)
        except (OSError, ValueError) as error:
            if keep is None:
                raise
            raise ScenarioError(
                f"the search cannot be kept in {keep}: {error}",
                hint="Name a folder with room for it, or remove what is damaged.",
            ) from error
        if answer.lost:
            if loss := realized(answer):
                clean = with_clean_stops(loss)
                control = None if clean is None or clean.lost else clean
                return Found(answer=answer, loss=loss, clean=control, nasty=())
            race = race or answer
        elif not answer.complete:
            break
    assert answer is not None
    nasty = covering_plans(answer.model, most=suite) if answer.impossible else ()
    return Found(answer=race or answer, loss=None, clean=None, nasty=tuple(nasty))


def _questions(scenario: Scenario, budgets: Budgets) -> Iterator[AdversaryModel]:
    """Yield what to ask, the gentlest first: few perturbations, and no power loss among them."""
    for perturbations in range(1, max(1, budgets.perturbations) + 1):
        if budgets.power_losses:
            gentle = replace(budgets, power_losses=0, in_all=perturbations)
            if gentle.perturbations == perturbations:
                yield question(scenario, gentle)
        within = min(perturbations, budgets.perturbations)
        yield question(scenario, replace(budgets, in_all=within))
