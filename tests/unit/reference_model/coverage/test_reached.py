"""What an adversary reaches: known figures, and the same as by the specification's successors."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.adversary.state import State, initial
from ackproof_model.adversary.successors import successors
from ackproof_model.breadth_first import reachable
from ackproof_model.coverage import Pair, Shape, pair_of, reached, shape_of
from ackproof_model.replication.state import Label


def model(version: str = "4.3.1", **settings: Any) -> AdversaryModel:
    budgets = Budgets(**settings.pop("budgets"))
    return AdversaryModel(kafka_version=version, budgets=budgets, reduction=False, **settings)


@pytest.mark.parametrize(
    ("budgets", "states", "controller_states", "pairs"),
    [
        ({"kills": 1}, 644, 8, 40),
        ({"kills": 1, "shrinks": 1}, 5_484, 30, 154),
        ({"kills": 2}, 12_339, 39, 174),
        pytest.param(
            {"kills": 1, "power_losses": 1, "shrinks": 1}, 95_133, 77, 329, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_known_figures(
    budgets: dict[str, int], states: int, controller_states: int, pairs: int
) -> None:
    found = reached(model(budgets=budgets))
    assert found.complete
    assert (found.states, found.controller_states, len(found.pairs)) == (
        states,
        controller_states,
        pairs,
    )


@pytest.mark.parametrize(
    "asked",
    [
        model(budgets={"kills": 1}),
        model(budgets={"clean_stops": 1}),
        model(budgets={"fencings": 1, "leader_moves": 1, "in_all": 1}, replicas=2),
        # Records are lost: the search goes on after a loss.
        model(budgets={"kills": 1}, acks="1", min_insync_replicas=1, replicas=2),
        model("2.8.2", budgets={"power_losses": 1}, replicas=2, unclean_election=True),
        model("0.10.2", budgets={"kills": 1}, replicas=2),
        model(budgets={"reassignments": 1}, replicas=1, spare_brokers=1, min_insync_replicas=1),
        # The brokers' states do not fit into 64 bits.
        model(budgets={"reassignments": 1}, spare_brokers=1, targets=((0, 1, 2), (3, 1, 2))),
    ],
    ids=lambda asked: f"{asked.kafka_version} {asked.budgets.allowed} acks={asked.acks}",
)
def test_the_specification_reaches_the_same(asked: AdversaryModel) -> None:
    states: list[State] = []
    pairs: set[Pair] = set()

    def steps(state: State) -> list[tuple[Label, State]]:
        found = list(successors(asked, state))
        pairs.update(pair_of(label, state.controller, after.controller) for label, after in found)
        return found

    states = [one.state for one in reachable(initial(asked), steps)]
    found = reached(asked)
    assert (found.states, found.pairs) == (len(states), pairs)
    assert found.shapes == {shape_of(state.controller) for state in states}


def test_a_loss_does_not_end_the_search() -> None:
    asked = model(budgets={"kills": 1}, acks="1", min_insync_replicas=1, replicas=2)
    after_loss = Pair("restart", Shape(1, (1,)), Shape(1, (1,)))
    assert after_loss in reached(asked).pairs


def test_the_limit_of_states_is_reported() -> None:
    asked = model(budgets={"kills": 1})
    assert reached(asked, most_states=644).complete
    few = reached(asked, most_states=100)
    assert not reached(asked, most_states=643).complete
    assert not few.complete
    assert few.pairs < reached(asked).pairs


def test_a_pair_in_words() -> None:
    before, after = Shape(0, (0, 1, 2)), Shape(-1, (), (0, 2), 2)
    assert str(Pair("kill", before, before)) == "kill at leader A, ISR {A, B, C}"
    assert str(Pair("fence", before, after)) == (
        "fence: from leader A, ISR {A, B, C} to no leader, ISR {}, ELR {A, C}, last leader C"
    )
