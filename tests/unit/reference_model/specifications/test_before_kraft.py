"""Each way of truncating, from KIP-101 to KIP-320: how many steps break it, if any do."""

from __future__ import annotations

import pytest

from specifications.before_kraft import (
    Bounds,
    initial,
    refute,
    strong_isr,
    successors,
)


@pytest.mark.parametrize(
    ("truncation", "steps"),
    [("high watermark", 8), ("KIP-101", 11), ("KIP-279", 11), ("KIP-320", 0)],
)
def test_the_shortest_way_to_break_strong_isr(truncation, steps):
    bounds = Bounds(truncation=truncation)
    way, states = refute(bounds)
    assert len(way) == steps
    assert states > 5_000
    reached = {initial(bounds)}
    for label in way:  # the way is one
        reached = {after for s in reached for what, after in successors(bounds, s) if what == label}
    assert all(map(strong_isr, reached)) == (steps == 0)


def test_a_follower_that_truncates_to_its_high_watermark_and_is_not_fenced_loses():
    way, _ = refute(Bounds(truncation="high watermark"))
    assert way[-1] == "follow"
    way, _ = refute(Bounds(truncation="KIP-279"))
    assert way[-1] == "leader expands"  # before it reached the epoch's start


@pytest.mark.slow
def test_kip_320_holds_through_three_epochs():
    way, states = refute(Bounds(truncation="KIP-320", epochs=3))
    assert not way
    assert states > 500_000
