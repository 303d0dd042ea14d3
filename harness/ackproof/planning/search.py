"""Searches how a configuration can lose acked records, and for schedules that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.errors import ScenarioError
from ackproof.planning.question import question as question_for
from ackproof.scenario.model import Scenario
from ackproof_model import adversary
from ackproof_model.adversary import AdversaryModel, AdversaryResult, Budgets
from ackproof_model.planning import (
    Plan,
    covering_plans,
    realized,
    with_clean_stops,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of the search for a configuration.

    answer: the answer with the fewest perturbations whose loss a schedule can reproduce; otherwise
    an answer whose loss needs a race; otherwise the answer with all allowed perturbations. loss:
    the schedule that reproduces the loss. clean: the same with controlled shutdowns, if that loses
    nothing. lossless: if no loss is possible, the schedules that come closest to a loss.
    """

    answer: AdversaryResult
    loss: Plan | None
    clean: Plan | None
    lossless: tuple[Plan, ...]


def search(
    scenario: Scenario,
    budgets: Budgets,
    *,
    suite: int,
    max_states: int,
    workers: int = 0,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> SearchResult:
    """Search with one perturbation, then with two, and so on up to `budgets`.

    suite: how many schedules to return at most if no loss is possible. max_states, workers: limit
    and processes of the search. keep: folder in which interrupted searches are stored.

    Raises ScenarioError for a configuration that the model does not support, and if `keep` cannot
    be used.
    """
    answer: AdversaryResult | None = None
    race: AdversaryResult | None = None
    for question in _questions(scenario, budgets):
        say(f"{question.budgets.perturbations} perturbations")
        try:
            answer = adversary.search(question, workers=workers, max_states=max_states, keep=keep)
        except (OSError, ValueError) as error:
            if keep is None:
                raise
            raise ScenarioError(
                f"--keep {keep}: the search cannot be stored there: {error}",
                hint="Name a folder with enough space, or remove the damaged files.",
            ) from error
        if answer.lost:
            if loss := realized(answer):
                clean = with_clean_stops(loss)
                control = None if clean is None or clean.lost else clean
                return SearchResult(answer=answer, loss=loss, clean=control, lossless=())
            race = race or answer
        elif not answer.complete:
            break
    assert answer is not None
    lossless = covering_plans(answer.model, most=suite) if answer.impossible else ()
    return SearchResult(answer=race or answer, loss=None, clean=None, lossless=tuple(lossless))


def _questions(scenario: Scenario, budgets: Budgets) -> Iterator[AdversaryModel]:
    """Yield questions by number of perturbations, each first without power losses."""
    for perturbations in range(1, max(1, budgets.perturbations) + 1):
        if budgets.power_losses:
            without_power_loss = replace(budgets, power_losses=0, in_all=perturbations)
            if without_power_loss.perturbations == perturbations:
                yield question_for(scenario, without_power_loss)
        within = min(perturbations, budgets.perturbations)
        yield question_for(scenario, replace(budgets, in_all=within))
