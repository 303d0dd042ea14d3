"""The share of what the model reaches that runs have passed through, and ways to the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ackproof.errors import RunDirectoryError, ScenarioError
from ackproof.exploration.next_schedule import Ways
from ackproof.exploration.passed import Passed, passed
from ackproof.exploration.results import Results, certain_pairs
from ackproof.planning.search import question
from ackproof.scenario.loader import load_stored
from ackproof.scenario.model import Scenario
from ackproof_model import coverage as model
from ackproof_model.adversary import Budgets
from ackproof_model.coverage import BYTES_A_STATE, Pair, Reached
from ackproof_model.planning import Plan, plans_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What runs have passed through, out of what the model reaches.

    certain, possible: the pairs of all runs that count. schedules: for pairs that no run has
    certainly passed through, the shortest schedule that passes through them on brokers without
    delays, as far as one was found. counted: the runs that count. left_out: why the others do not.
    explored: the results of an exploration, which are among those that count.
    """

    reached: Reached
    certain: frozenset[Pair]
    possible: frozenset[Pair]
    schedules: Mapping[Pair, Plan]
    counted: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    explored: Results = field(default_factory=dict)

    @property
    def missing(self) -> list[Pair]:
        """The pairs that no run has certainly passed through, in a stable order."""
        return sorted(self.reached.pairs - self.certain)


def reached(scenario: Scenario, budgets: Budgets, *, max_states: int) -> Reached:
    """Return everything that the model reaches for a scenario's configuration.

    Raises ScenarioError if the budgets allow nothing, if the configuration is not supported, or if
    there are more states than `max_states` or than fit into the memory of this machine.
    """
    if not budgets.perturbations:
        raise ScenarioError(
            "the budget allows no perturbation, so there is nothing to explore",
            hint="Raise one of --kills, --power-losses, --clean-stops, --shrinks, --fencings, "
            "--leader-moves and --reassignments.",
        )
    asked = question(scenario, budgets)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    within = min(max_states, free // BYTES_A_STATE)
    found = model.reached(asked, most_states=within)
    if not found.complete:
        limit = "--max-states" if within == max_states else "the free memory of this machine"
        raise ScenarioError(
            f"this budget reaches more than {within:,} states, the limit of {limit}",
            hint="Lower --in-all or one of the budgets, or raise the limit: a state needs up to "
            f"{BYTES_A_STATE} bytes.",
        )
    return found


def covered(
    everything: Reached,
    run_dirs: Iterable[Path],
    *,
    explored: Results | None = None,
    ways: Ways | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Coverage:
    """Return what these stored runs and results have passed through, and schedules to the rest.

    A run counts if it has the same configuration, and if the model explains it. ways: the planner's
    schedules, which are searched if they are not given.
    """
    counted, left_out = list[Passed](), dict[str, str]()
    names = []
    for run_dir in run_dirs:
        say(f"reading {run_dir.name}")
        own = passed_in(run_dir, everything)
        if own.why_not:
            left_out[run_dir.name] = own.why_not
        else:
            names.append(run_dir.name)
            counted.append(own)
    results = explored or {}
    certain = frozenset(pair for one in counted for pair in one.certain) | certain_pairs(results)
    possible = {pair for one in counted for pair in one.possible}
    possible |= {pair for one in results.values() for pair in one.possible}
    say("planning schedules")
    missing = everything.pairs - certain
    return Coverage(
        reached=everything,
        certain=certain,
        possible=frozenset(possible - certain),
        schedules=plans_to(everything.model, missing) if ways is None else ways.plans_to(missing),
        counted=tuple(names),
        left_out=left_out,
        explored=results,
    )


def passed_in(run_dir: Path, everything: Reached) -> Passed:
    """Return what a stored run passed through, or why it does not count."""
    try:
        scenario = load_stored(run_dir).scenario
        asked = question(scenario, everything.model.budgets)
        if replace(asked, reduction=False) != everything.model:
            return Passed(why_not="it has another configuration")
        return passed(run_dir, everything)
    except (ScenarioError, RunDirectoryError) as error:
        return Passed(why_not=error.message)
