"""Schedules through pairs of steps and shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.coverage import Pair, Shape, reached
from ackproof_model.planning import (
    HEALS,
    OperationKind,
    Plan,
    carried_out,
    permitted,
    plans_to,
    through,
    variation,
)

FULL = Shape(0, (0, 1, 2))


def model(version: str = "4.3.1", **budgets: int) -> AdversaryModel:
    late = "leader_moves" in budgets
    return AdversaryModel(kafka_version=version, misses_epochs=late, budgets=Budgets(**budgets))


@pytest.mark.parametrize(
    ("pair", "operations"),
    [
        (Pair("write", FULL, FULL), []),
        (Pair("kill", FULL, FULL), ["kill 0"]),
        (Pair("fence", FULL, Shape(1, (1, 2))), ["kill 0"]),
        (Pair("apply", Shape(1, (1, 2)), Shape(1, (0, 1, 2))), ["kill 0", "start 0"]),
        (Pair("shrink", FULL, FULL), ["lag 1"]),
    ],
    ids=str,
)
def test_the_shortest_schedule_passes_through_the_pair(pair: Pair, operations: list[str]) -> None:
    plan = plans_to(model(kills=1, shrinks=1), {pair}).get(pair)
    assert plan is not None
    assert [f"{one.kind} {one.broker}" for one in plan.operations] == operations
    again = carried_out(plan.model, plan.operations)
    assert again is not None
    assert pair in again.stages[-1].pairs


def test_a_pair_that_needs_a_delay_has_none() -> None:
    asked = model(kills=1)
    refused = [pair for pair in reached(asked).pairs if pair.step == "refuse"]
    assert refused
    assert not plans_to(asked, refused)


def test_most_pairs_of_a_kill_have_a_schedule_within_the_budget() -> None:
    asked = model(kills=1)
    pairs = reached(asked).pairs
    plans = plans_to(asked, pairs)
    assert (len(plans), len(pairs)) == (37, 40)
    for plan in plans.values():
        kinds = Counter(one.kind for one in plan.operations if one.kind not in HEALS)
        assert kinds[OperationKind.KILL] <= 1
        assert kinds.keys() <= {OperationKind.KILL, OperationKind.WITHHOLD}


def test_no_schedule_waits_for_a_request_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held in vain changes nothing, so that the same without it comes first."""
    asked = replace(model("3.4.1", leader_moves=1, kills=1), replicas=2, min_insync_replicas=1)
    examined = list(islice(through._schedules(asked), 3_000))
    pairs = {pair for stages in examined for pair in stages[-1].pairs}

    def refused() -> list[Plan]:
        plans = plans_to(asked, pairs).values()
        return [plan for plan in plans if not permitted(asked, plan.operations)]

    assert not refused()
    waiting_first = sorted(examined, key=variation._idle, reverse=True)
    monkeypatch.setattr(through, "_schedules", lambda _: waiting_first)
    assert refused(), "some of the schedules that are examined would wait"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "budgets", "plans", "pairs"),
    [
        ("4.3.1", {"kills": 1, "shrinks": 1}, 134, 154),
        ("4.3.1", {"kills": 2}, 149, 174),
        ("4.4.0", {"kills": 2, "power_losses": 1, "shrinks": 2, "in_all": 2}, 170, 194),
        ("4.4.0", {"leader_moves": 1, "kills": 2}, 187, 225),
    ],
    ids=str,
)
def test_most_pairs_of_some_perturbations_have_a_schedule(
    version: str, budgets: dict[str, int], plans: int, pairs: int
) -> None:
    asked = model(version, **budgets)
    every = reached(asked).pairs
    assert (len(plans_to(asked, every)), len(every)) == (plans, pairs)
