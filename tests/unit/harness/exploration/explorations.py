"""An exploration of one kill, for the tests of its parts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ackproof.exploration import coverage
from ackproof.exploration.folder import Exploration, Folder
from ackproof.exploration.next_schedule import Ways, next_schedule
from ackproof.exploration.results import Proposal, Result, Results, Schedule, name_of
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Scenario
from ackproof_model import coverage as model
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.coverage import Pair, Reached

SCENARIO: Scenario = validate(
    {
        "version": 1,
        "name": "orders",
        "kafka": "4.3.1",
        "topics": {"orders": {"assignment": [[2, 3, 1]], "settings": {"min.insync.replicas": 2}}},
        "workload": {
            "topic": "orders",
            "settings": {"acks": "all", "enable.idempotence": True},
        },
    }
)


@cache
def reached(kills: int = 1) -> Reached:
    return coverage.reached(SCENARIO, Budgets(kills=kills), max_states=100_000)


def folder_at(path: Path, *, kills: int = 1) -> Folder:
    return Folder(path, Exploration.of(SCENARIO, reached(kills).model))


def opened(path: Path) -> tuple[Folder, Ways]:
    folder = folder_at(path)
    folder.open()
    return folder, folder.ways(reached(), lambda text: None)


def proposed_again(result: Result, results: Results, ways: Ways) -> Proposal:
    """Return the schedule for which the results lead that were stored before it."""
    known = {
        name: one for name, one in results.items() if one.number < result.known.get(one.seed, 0)
    }
    begun = range(result.known.get(result.seed, 0), result.number)
    return next_schedule(
        result.seed,
        result.number,
        known,
        begun=[results[name_of(result.seed, number)].proposal.schedule for number in begun],
        ways=ways,
    )


#: What stored explorations have, of which only pairs count.
TWO_REPLICAS = AdversaryModel(kafka_version="4.3.1", replicas=2, budgets=Budgets(kills=2))
PAIRS: list[Pair] = sorted(model.reached(TWO_REPLICAS).pairs)


def explored(path: Path, *passed: tuple[list[Pair], list[Pair]]) -> Path:
    """Write a folder with a result for each pair of lists: passed for certain, and perhaps."""
    folder = Folder(path, Exploration.of(SCENARIO, TWO_REPLICAS))
    folder.open()
    for number, (certain, possible) in enumerate(passed):
        result = Result(
            seed=1,
            number=number,
            known={},
            proposal=Proposal(schedule=Schedule(operations=(), records=5), origin="drawn"),
            verdict="holds",
            reason="",
            certain=tuple(certain),
            possible=tuple(possible),
        )
        folder.add(result)
    return path
