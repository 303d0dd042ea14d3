from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import TypeAdapter

from ackproof_faults.conditions.conditions import Trigger, parse_condition, parse_trigger
from ackproof_faults.conditions.durations import parse_duration


@dataclass(kw_only=True)
class Seen:
    acked: int = 0
    acked_more: int = 0
    sent: int = 0
    sent_more: int = 0
    size: int | None = 3
    members: tuple[int, ...] = ()
    led_by: int | None = 1
    now_epoch: int | None = 0
    stands_s: float | None = None
    lags: int | None = None
    said: tuple[int, str] = (0, "")
    has: tuple[str, str] = ("", "")
    changed: bool = False
    seconds: float = 0.0

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        return int(getattr(self, f"{outcome}_more" if more else outcome))

    def isr(self, topic: str, partition: int) -> tuple[int, ...] | None:
        return None if self.size is None else self.members or tuple(range(self.size))

    def leader(self, topic: str, partition: int) -> int | None:
        return self.led_by

    def epoch(self, topic: str, partition: int) -> int | None:
        return self.now_epoch

    def still(self, topic: str, partition: int) -> float | None:
        return self.stands_s

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        return self.lags if group == "readers" else None

    def log_says(self, broker: int | None, text: str) -> bool:
        return broker in (None, self.said[0]) and text in self.said[1]

    def happened(self, fault: str, event: str) -> bool:
        return (fault, event) == self.has

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
        ("isr of orders-0 == 3", Seen(size=3), Seen(size=2)),
        ("isr of orders-0 != 3", Seen(size=2), Seen(size=3)),
        ("isr of orders-0 < 3", Seen(size=2), Seen(size=3)),
        ("isr of orders-0 <= 2", Seen(size=2), Seen(size=3)),
        ("isr of orders-0 > 1", Seen(size=2), Seen(size=1)),
        ("isr of orders-0 >= 2", Seen(size=2), Seen(size=1)),
        ("leader of orders-0 changed", Seen(changed=True), Seen(changed=False)),
        ("after 5s", Seen(seconds=5), Seen(seconds=4.9)),
        ("leader of orders-0 == 2", Seen(led_by=2), Seen(led_by=1)),
        ("leader of orders-0 != 2", Seen(led_by=1), Seen(led_by=2)),
        ("leader of orders-0 != 2", Seen(led_by=1), Seen(led_by=None)),
        ("leader of orders-0 == none", Seen(led_by=None, size=1), Seen(led_by=2, size=1)),
        ("leader of orders-0 == none", Seen(led_by=None, size=0), Seen(led_by=None, size=None)),
        ("leader of orders-0 != none", Seen(led_by=1), Seen(led_by=None)),
        ("isr of orders-0 is {1, 3}", Seen(members=(3, 1)), Seen(members=(1, 2, 3))),
        ("isr of orders-0 is {1}", Seen(members=(1,)), Seen(size=None)),
        ("epoch of orders-0 >= 5", Seen(now_epoch=5), Seen(now_epoch=4)),
        ("epoch of orders-0 < 5", Seen(now_epoch=4), Seen(now_epoch=None)),
        ("hw of orders-0 stuck for 2s", Seen(stands_s=2.0), Seen(stands_s=1.9)),
        ("hw of orders-0 stuck for 500ms", Seen(stands_s=0.5), Seen(stands_s=None)),
        ("lag of readers on orders-0 > 100", Seen(lags=101), Seen(lags=100)),
        ("lag of readers on orders-0 <= 100", Seen(lags=100), Seen(lags=None)),
        ("lag of readers on orders-0 > 1", Seen(lags=2), Seen()),
        ("log of broker 1 says 'Truncating'", Seen(said=(1, "Truncating to 5")), Seen()),
        ("log of broker 1 says 'x'", Seen(said=(1, "x")), Seen(said=(2, "x"))),
        ("log of broker says 'x'", Seen(said=(2, "x")), Seen(said=(2, "y"))),
        ("cut began", Seen(has=("cut", "began")), Seen(has=("cut", "ended"))),
        ("cut recovered", Seen(has=("cut", "recovered")), Seen(has=("kill", "recovered"))),
        ("after 250ms", Seen(seconds=0.25), Seen(seconds=0.2)),
    ],
)
def test_a_condition_holds_or_does_not(written: str, holds: Seen, does_not: Seen) -> None:
    condition = parse_condition(written)
    assert condition.holds(holds)
    assert not condition.holds(does_not)


@pytest.mark.parametrize("written", ["< 3", "!= 3", "<= 1", ">= 0"])
def test_an_isr_that_nobody_knows_meets_no_condition(written: str) -> None:
    assert not parse_condition(f"isr of orders-0 {written}").holds(Seen(size=None))


@pytest.mark.parametrize(
    "written",
    [
        "leader of orders-0 == 2",
        "leader of orders-0 == none",
        "isr of orders-0 is {1, 3}",
        "epoch of orders-0 >= 5",
        "hw of orders-0 stuck for 2s",
        "lag of readers on orders-0 > 100",
        "log of broker 1 says 'Truncating'",
        "log of broker says 'Truncating'",
        "cut ended",
    ],
)
def test_a_condition_is_written_as_it_is_read_and_as_its_schema_wants(written: str) -> None:
    assert str(parse_condition(written)) == written
    schema = TypeAdapter(Trigger).json_schema()
    assert re.search(schema["anyOf"][0]["pattern"], written)


def test_all_conditions_of_a_trigger_must_hold() -> None:
    trigger = parse_trigger(["10 acked", "isr of orders-0 == 3"])
    assert trigger.hold(Seen(acked=10, size=3))
    assert not trigger.hold(Seen(acked=10, size=2))
    assert not trigger.hold(Seen(acked=9, size=3))


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
