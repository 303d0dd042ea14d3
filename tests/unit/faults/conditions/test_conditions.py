from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from ackproof_faults.conditions.durations import parse_duration
from ackproof_faults.conditions.trigger import AnyOf, Trigger, parse_condition, parse_trigger
from support.schedules import Observed


@pytest.mark.parametrize(
    ("written", "holds", "does_not"),
    [
        ("2000 acked", Observed(acked=2000), Observed(acked=1999, acked_more=5000)),
        ("500 more acked", Observed(acked_more=500), Observed(acked_more=499, acked=5000)),
        ("10 sent", Observed(sent=10), Observed(sent=9)),
        ("10 more sent", Observed(sent_more=11), Observed(sent=11)),
        ("isr of orders-0 == 3", Observed(size=3), Observed(size=2)),
        ("isr of orders-0 != 3", Observed(size=2), Observed(size=3)),
        ("isr of orders-0 < 3", Observed(size=2), Observed(size=3)),
        ("isr of orders-0 <= 2", Observed(size=2), Observed(size=3)),
        ("isr of orders-0 > 1", Observed(size=2), Observed(size=1)),
        ("isr of orders-0 >= 2", Observed(size=2), Observed(size=1)),
        ("leader of orders-0 changed", Observed(changed=True), Observed(changed=False)),
        ("after 5s", Observed(seconds=5), Observed(seconds=4.9)),
        ("leader of orders-0 == 2", Observed(leads=2), Observed(leads=1)),
        ("leader of orders-0 != 2", Observed(leads=1), Observed(leads=2)),
        ("leader of orders-0 != 2", Observed(leads=1), Observed(leads=None)),
        ("leader of orders-0 == none", Observed(leads=None, size=1), Observed(leads=2, size=1)),
        (
            "leader of orders-0 == none",
            Observed(leads=None, size=0),
            Observed(leads=None, size=None),
        ),
        ("leader of orders-0 != none", Observed(leads=1), Observed(leads=None)),
        ("isr of orders-0 is {1, 3}", Observed(members=(3, 1)), Observed(members=(1, 2, 3))),
        ("isr of orders-0 is {1}", Observed(members=(1,)), Observed(size=None)),
        ("elr of orders-0 is {2, 3}", Observed(eligible=(3, 2)), Observed(eligible=(2,))),
        ("elr of orders-0 is {}", Observed(eligible=()), Observed(eligible=None)),
        ("last known leader of orders-0 == 2", Observed(led_last=2), Observed(leads=2)),
        ("epoch of orders-0 >= 5", Observed(leader_epoch=5), Observed(leader_epoch=4)),
        ("epoch of orders-0 < 5", Observed(leader_epoch=4), Observed(leader_epoch=None)),
        ("hw of orders-0 stuck for 2s", Observed(unchanged_s=2.0), Observed(unchanged_s=1.9)),
        ("hw of orders-0 stuck for 500ms", Observed(unchanged_s=0.5), Observed(unchanged_s=None)),
        ("lag of readers on orders-0 > 100", Observed(group_lag=101), Observed(group_lag=100)),
        ("lag of readers on orders-0 <= 100", Observed(group_lag=100), Observed(group_lag=None)),
        ("lag of readers on orders-0 > 1", Observed(group_lag=2), Observed()),
        ("log of broker 1 says 'Truncating'", Observed(log=(1, "Truncating to 5")), Observed()),
        ("log of broker 1 says 'x'", Observed(log=(1, "x")), Observed(log=(2, "x"))),
        ("log of broker says 'x'", Observed(log=(2, "x")), Observed(log=(2, "y"))),
        ("cut began", Observed(event=("cut", "began")), Observed(event=("cut", "ended"))),
        (
            "cut recovered",
            Observed(event=("cut", "recovered")),
            Observed(event=("kill", "recovered")),
        ),
        ("after 250ms", Observed(seconds=0.25), Observed(seconds=0.2)),
    ],
)
def test_a_condition_holds_or_does_not(written: str, holds: Observed, does_not: Observed) -> None:
    condition = parse_condition(written)
    assert condition.holds(holds)
    assert not condition.holds(does_not)


@pytest.mark.parametrize("written", ["< 3", "!= 3", "<= 1", ">= 0"])
def test_a_condition_on_an_unknown_isr_does_not_hold(written: str) -> None:
    assert not parse_condition(f"isr of orders-0 {written}").holds(Observed(size=None))


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
        "500 more acked",
        "after 0.25s",
        "isr of orders-0 == 1 or after 20s",
        "log of broker 1 says 'one or two' or log of broker says 'a' or cut ended",
    ],
)
def test_condition_round_trips_and_matches_the_schema(written: str) -> None:
    assert str(parse_condition(written)) == written
    schema = TypeAdapter(Trigger).json_schema()
    assert re.search(schema["anyOf"][0]["pattern"], written)


@pytest.mark.parametrize(
    "written", ["", " or ", "10 acked or ", "10 acked or or after 5s", "10 acked after 5s", "or"]
)
def test_the_schema_and_the_parser_refuse_the_same_texts(written: str) -> None:
    schema = TypeAdapter(Trigger).json_schema()
    assert not re.search(schema["anyOf"][0]["pattern"], written)
    with pytest.raises(ValueError, match="is not a condition"):
        parse_condition(written)


def test_all_conditions_of_a_trigger_must_hold() -> None:
    trigger = parse_trigger(["10 acked", "isr of orders-0 == 3"])
    assert trigger.hold(Observed(acked=10, size=3))
    assert not trigger.hold(Observed(acked=10, size=2))
    assert not trigger.hold(Observed(acked=9, size=3))


def test_one_of_several_alternatives_must_hold() -> None:
    trigger = parse_trigger(["10 acked or isr of orders-0 == 1", "after 5s"])
    assert trigger.hold(Observed(acked=10, seconds=5))
    assert trigger.hold(Observed(size=1, seconds=5))
    assert not trigger.hold(Observed(acked=10, size=1))
    assert not trigger.hold(Observed(seconds=5))
    assert str(trigger) == "(10 acked or isr of orders-0 == 1) and after 5s"


def test_the_quoted_text_of_a_log_line_may_contain_or() -> None:
    written = "log of broker says 'full or nearly'"
    assert not isinstance(parse_condition(written), AnyOf)


def test_a_trigger_without_conditions_holds_at_once() -> None:
    assert parse_trigger([]).hold(Observed())
    assert str(parse_trigger([])) == "at once"


def test_conditions_are_replaced_in_alternatives_too() -> None:
    trigger = parse_trigger(["10 acked or after 5s", "after 7s", "20 acked"])
    kept = trigger.replaced(lambda one: None if str(one).startswith("after") else one)
    assert list(map(str, kept)) == ["10 acked", "20 acked"]


@pytest.mark.parametrize(
    "written", ["2000 ackd", "acked", "-1 acked", "isr of orders == 3", "after", "", 7, None]
)
def test_a_wrong_condition_is_refused_with_the_value_and_the_legal_forms(written: object) -> None:
    with pytest.raises(ValueError, match="'N acked'") as refusal:
        parse_condition(written)
    assert repr(written) in str(refusal.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2000 ackd", "2000 acked"),
        ("leeder of orders-0 changed", "leader of orders-0 changed"),
        ("10 acked or isr off orders-0 == 1", "10 acked or isr of orders-0 == 1"),
    ],
)
def test_error_for_a_misspelt_condition_suggests_the_correct_condition(
    written: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        parse_condition(written)


@pytest.mark.parametrize(
    ("written", "seconds"), [("5s", 5), ("250ms", 0.25), ("2m", 120), (3, 3), (1.5, 1.5)]
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["5", "s", "-1s", -1, True, "5h", None])
def test_a_wrong_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)
