from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from ackproof.faults.triggers import parse_condition, parse_duration, parse_trigger


@dataclass(kw_only=True)
class Seen:
    acked: int = 0
    acked_more: int = 0
    sent: int = 0
    sent_more: int = 0
    isr: int | None = 3
    changed: bool = False
    seconds: float = 0.0

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        return int(getattr(self, f"{outcome}_more" if more else outcome))

    def isr_size(self, topic: str, partition: int) -> int | None:
        return self.isr

    def leader_changed(self, topic: str, partition: int) -> bool:
        return self.changed

    def elapsed(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("written", "holds", "does_not"),
    [
        ("2000 acked", Seen(acked=2000), Seen(acked=1999, acked_more=5000)),
        ("500 more acked", Seen(acked_more=500), Seen(acked_more=499, acked=5000)),
        ("10 sent", Seen(sent=10), Seen(sent=9)),
        ("10 more sent", Seen(sent_more=11), Seen(sent=11)),
        ("isr of orders-0 == 3", Seen(isr=3), Seen(isr=2)),
        ("isr of orders-0 != 3", Seen(isr=2), Seen(isr=3)),
        ("isr of orders-0 < 3", Seen(isr=2), Seen(isr=3)),
        ("isr of orders-0 <= 2", Seen(isr=2), Seen(isr=3)),
        ("isr of orders-0 > 1", Seen(isr=2), Seen(isr=1)),
        ("isr of orders-0 >= 2", Seen(isr=2), Seen(isr=1)),
        ("leader of orders-0 changed", Seen(changed=True), Seen(changed=False)),
        ("after 5s", Seen(seconds=5), Seen(seconds=4.9)),
        ("after 250ms", Seen(seconds=0.25), Seen(seconds=0.2)),
    ],
)
def test_a_condition_holds_or_does_not(written: str, holds: Seen, does_not: Seen) -> None:
    condition = parse_condition(written)
    assert condition.holds(holds)
    assert not condition.holds(does_not)


@pytest.mark.parametrize("written", ["< 3", "!= 3", "<= 1", ">= 0"])
def test_an_isr_that_nobody_knows_meets_no_condition(written: str) -> None:
    assert not parse_condition(f"isr of orders-0 {written}").holds(Seen(isr=None))


def test_all_conditions_of_a_trigger_must_hold() -> None:
    trigger = parse_trigger(["10 acked", "isr of orders-0 == 3"])
    assert trigger.hold(Seen(acked=10, isr=3))
    assert not trigger.hold(Seen(acked=10, isr=2))
    assert not trigger.hold(Seen(acked=9, isr=3))


def test_no_condition_holds_at_once() -> None:
    assert parse_trigger([]).hold(Seen())


@pytest.mark.parametrize(
    "written", ["2000 ackd", "acked", "-1 acked", "isr of orders == 3", "after", "", 7, None]
)
def test_anything_else_is_refused_with_the_value_and_what_is_legal(written: object) -> None:
    with pytest.raises(ValueError, match="'N acked'") as refusal:
        parse_condition(written)
    assert repr(written) in str(refusal.value)


@pytest.mark.parametrize(
    ("written", "seconds"), [("5s", 5), ("250ms", 0.25), ("2m", 120), (3, 3), (1.5, 1.5)]
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["5", "s", "-1s", -1, True, "5h", None])
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)
