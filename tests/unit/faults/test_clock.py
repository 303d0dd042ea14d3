from __future__ import annotations

import pytest
from pydantic import ValidationError

from ackproof.faults import FaultError, inject
from ackproof.faults.clock import Clock
from integration.command import clock
from unit.faults.fake_cluster import FakeCluster


@pytest.mark.parametrize(("written", "ahead"), [("1m", 60), ("-30s", -30), (5, 5), (-2.5, -2.5)])
def test_a_jump_has_a_direction(written: object, ahead: float) -> None:
    one = Clock.model_validate({"fault": "clock", "target": 1, "ahead": written})
    assert one.ahead == ahead
    assert Clock.model_validate(one.model_dump(mode="json")) == one


@pytest.mark.parametrize("written", ["soon", "1s", -1, "--5s", True, None])
def test_what_is_no_jump_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        Clock.model_validate({"fault": "clock", "target": 1, "ahead": written})


def test_a_clock_that_stays_where_it_was_is_no_fault() -> None:
    cluster = FakeCluster()
    cluster.set_clock = lambda broker, ahead: None  # type: ignore[method-assign, assignment]
    guard = inject(Clock(target=[1, 2], ahead=60), cluster, clock=clock)
    assert not guard.window.verified
    assert "broker 1 is +0.0 s ahead, not +60 s" in guard.window.evidence


def test_a_clock_is_set_right_when_it_is_healed() -> None:
    cluster = FakeCluster()
    with inject(Clock(target=[1, 2], ahead=-60), cluster, clock=clock) as guard:
        assert guard.window.verified
        assert cluster.clocks == {1: -60, 2: -60}
        with pytest.raises(FaultError):
            Clock(target=1, ahead=60).verify(cluster, [1])
    assert cluster.clocks == {1: 0, 2: 0}
    assert guard.recovered()
