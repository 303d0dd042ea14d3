from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from ackproof_faults.conditions.durations import parse_duration
from ackproof_faults.conditions.observation import Observation
from ackproof_faults.conditions.targets import parse_target
from ackproof_faults.conditions.trigger import AnyOf, Trigger, parse_condition, parse_trigger
from support.schedules import observed

PATTERN = TypeAdapter(Trigger).json_schema()["anyOf"][0]["pattern"]


@pytest.mark.parametrize(
    ("written", "holds", "does_not"),
    [
        ("2000 acked", observed(acked=2000), observed(acked=1999, acked_more=5000)),
        ("500 more acked", observed(acked_more=500), observed(acked_more=499, acked=5000)),
        ("10 sent", observed(sent=10), observed(sent=9)),
        ("10 more sent", observed(sent_more=11), observed(sent=11)),
        ("isr of orders-0 == 3", observed(size=3), observed(size=2)),
        ("3 acquired", observed(acquired=3), observed(acquired=2, acked=5)),
        (
            "3 more acquired",
            observed(acquired=5, acquired_more=3),
            observed(acquired=5, acquired_more=2),
        ),
        ("isr of orders-0 != 3", observed(size=2), observed(size=3)),
        ("isr of orders-0 < 3", observed(size=2), observed(size=3)),
        ("isr of orders-0 <= 2", observed(size=2), observed(size=3)),
        ("isr of orders-0 > 1", observed(size=2), observed(size=1)),
        ("isr of orders-0 >= 2", observed(size=2), observed(size=1)),
        ("leader of orders-0 changed", observed(led=2), observed(led=None)),
        ("after 5s", observed(seconds=5), observed(seconds=4.9)),
        ("leader of orders-0 == 2", observed(leads=2), observed(leads=1)),
        ("leader of orders-0 != 2", observed(leads=1), observed(leads=2)),
        ("leader of orders-0 != 2", observed(leads=1), observed(leads=None)),
        ("leader of orders-0 == none", observed(leads=None, size=1), observed(leads=2, size=1)),
        (
            "leader of orders-0 == none",
            observed(leads=None, size=0),
            observed(leads=None, size=None),
        ),
        ("leader of orders-0 != none", observed(leads=1), observed(leads=None)),
        ("isr of orders-0 is {1, 3}", observed(members=(3, 1)), observed(members=(1, 2, 3))),
        ("isr of orders-0 is {1}", observed(members=(1,)), observed(size=None)),
        ("elr of orders-0 is {2, 3}", observed(eligible=(3, 2)), observed(eligible=(2,))),
        ("elr of orders-0 is {}", observed(eligible=()), observed(eligible=None)),
        ("last known leader of orders-0 == 2", observed(led_last=2), observed(leads=2)),
        ("epoch of orders-0 >= 5", observed(leader_epoch=5), observed(leader_epoch=4)),
        ("epoch of orders-0 < 5", observed(leader_epoch=4), observed(leader_epoch=None)),
        ("hw of orders-0 stuck for 2s", observed(unchanged_s=2.0), observed(unchanged_s=1.9)),
        ("hw of orders-0 stuck for 500ms", observed(unchanged_s=0.5), observed(unchanged_s=None)),
        ("lag of readers on orders-0 > 100", observed(group_lag=101), observed(group_lag=100)),
        ("lag of readers on orders-0 <= 100", observed(group_lag=100), observed(leader_epoch=None)),
        ("lag of readers on orders-0 > 1", observed(group_lag=2), observed()),
        ("lag of broker 3 on orders-0 == 0", observed(), observed(ends=(9, 9, 8))),
        ("lag of broker 3 on orders-0 > 5", observed(ends=(9, 9, 3)), observed(ends=(9, 3, 9))),
        ("lag of broker 3 on orders-0 < 9", observed(), observed(ends=(9, 9, None))),
        ("lag of broker 3 on orders-0 < 9", observed(), observed(leads=None)),
        ("log of broker 1 says 'Truncating'", observed(log=(1, "Truncating to 5")), observed()),
        ("log of broker 1 says 'x'", observed(log=(1, "x")), observed(log=(2, "x"))),
        ("log of broker says 'x'", observed(log=(2, "x")), observed(log=(2, "y"))),
        ("cut began", observed(event=("cut", "began")), observed(event=("cut", "ended"))),
        (
            "cut recovered",
            observed(event=("cut", "recovered")),
            observed(event=("kill", "recovered")),
        ),
        ("after 250ms", observed(seconds=0.25), observed(seconds=0.2)),
    ],
)
def test_a_condition_holds_or_does_not(
    written: str, holds: Observation, does_not: Observation
) -> None:
    condition = parse_condition(written)
    assert condition.holds(holds)
    assert not condition.holds(does_not)
    assert parse_condition(str(condition)) == condition
    assert re.search(PATTERN, written)


@pytest.mark.parametrize("written", ["< 3", "!= 3", "<= 1", ">= 0"])
def test_a_condition_on_an_unknown_isr_does_not_hold(written: str) -> None:
    assert not parse_condition(f"isr of orders-0 {written}").holds(observed(size=None))


@pytest.mark.parametrize(
    "written",
    [
        "500 more acked",
        "after 0.25s",
        "leader of orders-0 == none",
        "isr of orders-0 is {1, 3}",
        "isr of orders-0 == 1 or after 20s",
        "log of broker 1 says 'one or two' or log of broker says 'a' or cut ended",
    ],
)
def test_condition_round_trips_and_matches_the_schema(written: str) -> None:
    assert str(parse_condition(written)) == written
    assert re.search(PATTERN, written)


@pytest.mark.parametrize(
    "written", ["", " or ", "10 acked or ", "10 acked or or after 5s", "10 acked after 5s", "or"]
)
def test_the_schema_and_the_parser_refuse_the_same_texts(written: str) -> None:
    assert not re.search(PATTERN, written)
    with pytest.raises(ValueError, match="is not a condition"):
        parse_condition(written)


def test_all_conditions_of_a_trigger_must_hold() -> None:
    trigger = parse_trigger(["10 acked", "isr of orders-0 == 3"])
    assert trigger.hold(observed(acked=10, size=3))
    assert not trigger.hold(observed(acked=10, size=2))
    assert not trigger.hold(observed(acked=9, size=3))


def test_one_of_several_alternatives_must_hold() -> None:
    trigger = parse_trigger(["10 acked or isr of orders-0 == 1", "after 5s"])
    assert trigger.hold(observed(acked=10, seconds=5))
    assert trigger.hold(observed(size=1, seconds=5))
    assert not trigger.hold(observed(acked=10, size=1))
    assert not trigger.hold(observed(seconds=5))
    assert str(trigger) == "(10 acked or isr of orders-0 == 1) and after 5s"


def test_the_quoted_text_of_a_log_line_may_contain_or() -> None:
    written = "log of broker says 'full or nearly'"
    assert not isinstance(parse_condition(written), AnyOf)


def test_a_trigger_without_conditions_holds_at_once() -> None:
    assert parse_trigger([]).hold(observed())
    assert str(parse_trigger([])) == "at once"


def test_conditions_are_replaced_in_alternatives_too() -> None:
    trigger = parse_trigger(["10 acked or after 5s", "after 7s", "20 acked"])
    kept = trigger.replaced(lambda one: None if str(one).startswith("after") else one)
    assert list(map(str, kept)) == ["10 acked", "20 acked"]


@pytest.mark.parametrize(
    "written", ["acked", "-1 acked", "isr of orders == 3", "after", "", 7, None]
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1500 acks", "'1500 acks' is not a condition; did you mean '1500 acked'?"),
        ("whenever", "'whenever' is not a condition ('N acked', "),
    ],
)
def test_a_wrong_condition_is_answered_by_the_right_one_if_it_is_known(
    text: str, said: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        parse_condition(text)
    assert ("did you mean" in str(refused.value)) != ("isr of TOPIC-N" in str(refused.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leadr of orders-0", "'leadr of orders-0' is not a target; did you mean 'leader of"),
        ("somebody", "'somebody' is not a target ("),
    ],
)
def test_a_wrong_target_is_answered_by_the_right_one_if_it_is_known(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_target(text)
