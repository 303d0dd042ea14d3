"""The search that the small specifications share."""

from __future__ import annotations

from ackproof_model.breadth_first import explore, reachable


def steps(number):
    """Add one, or double, up to 20."""
    return [(label, n) for label, n in (("add", number + 1), ("double", number * 2)) if n <= 20]


def test_ways_are_shortest_and_lead_there():
    found = explore(1, steps, lambda n: {"ten"} if n == 10 else set())
    assert found.complete
    assert found.states == 20
    assert [label for label, _ in found.traces["ten"]] == ["add", "double", "add", "double"]
    state = 1
    for label, after in found.traces["ten"]:
        assert (label, after) in steps(state)
        state = after


def test_it_ends_when_all_that_is_wanted_is_found():
    def odd_ones(n):
        return [name for name, m in (("two", 2), ("ten", 10)) if n == m]

    both = explore(1, steps, odd_ones, until=["two", "ten"])
    one = explore(1, steps, odd_ones, until=["two"])
    assert set(both.traces) == {"two", "ten"}
    assert set(one.traces) == {"two"}
    assert one.states < both.states


def test_without_room_it_is_not_complete():
    found = explore(1, steps, lambda n: ["ten"] if n == 10 else [], max_states=3)
    assert not found.complete
    assert not found.traces


def test_a_goal_of_every_final_state_is_certain():
    def goals(n):
        return [name for name, holds in (("even", n % 2 == 0), ("large", n > 18)) if holds]

    found = explore(1, steps, goals, final=lambda n, after: n >= 19)
    assert found.certain == {"large"}
    assert not explore(1, steps, goals).certain
    assert not explore(1, steps, goals, final=lambda n, after: n >= 19, max_states=3).certain
    early = explore(1, steps, goals, final=lambda n, after: n in (1, 2), until=["even"])
    assert (early.certain, early.states < 20) == (frozenset(), True)


def test_states_with_one_key_are_one_state_within_a_depth():
    reached = list(reachable(1, steps, key=lambda n: n % 5, depth=2))
    assert [(one.state, one.depth) for one in reached] == [(1, 0), (2, 1), (3, 2), (4, 2)]
