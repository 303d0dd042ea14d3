"""The search that the small specifications share."""

from __future__ import annotations

from ackproof_model.breadth_first import explore


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
