"""Targets and conditions as Python expressions equal their parsed text."""

from __future__ import annotations

from itertools import product

import pytest

from ackproof_faults.conditions.builders import (
    Expression,
    acked,
    acquired,
    active_controller,
    after,
    all_brokers,
    any_brokers,
    began,
    brokers,
    ended,
    epoch,
    followers,
    high_watermark,
    isr,
    lag,
    leader,
    log_says,
    majority_of_controllers,
    minority_of_controllers,
    rack,
    recovered,
    replica_lag,
    sent,
    share_coordinator,
)
from ackproof_faults.conditions.targets import TargetSpec, parse_target
from ackproof_faults.conditions.trigger import Conditions, parse_trigger
from ackproof_faults.process.stops import Kill
from support.schedules import observed


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (acked(3000), "3000 acked"),
        (acked.more(500), "500 more acked"),
        (sent(10), "10 sent"),
        (sent.more(10), "10 more sent"),
        (acquired(3), "3 acquired"),
        (acquired.more(3), "3 more acquired"),
        (after(5), "after 5s"),
        (isr("orders", 0) == 3, "isr of orders-0 == 3"),
        (isr("orders", 0) != 3, "isr of orders-0 != 3"),
        (isr("orders", 0) < 3, "isr of orders-0 < 3"),
        (isr("orders", 0) <= 2, "isr of orders-0 <= 2"),
        (isr("orders", 0) > 1, "isr of orders-0 > 1"),
        (isr("orders", 0) >= 2, "isr of orders-0 >= 2"),
        (isr("orders", 0) == {3, 1}, "isr of orders-0 is {1, 3}"),
        (leader("orders", 0) == 2, "leader of orders-0 == 2"),
        (leader("orders", 0) != 2, "leader of orders-0 != 2"),
        (leader("orders", 0).is_none, "leader of orders-0 == none"),
        (leader("orders", 0).exists, "leader of orders-0 != none"),
        (leader("orders", 0).changed, "leader of orders-0 changed"),
        (epoch("orders", 0) >= 5, "epoch of orders-0 >= 5"),
        (high_watermark("orders", 0).stuck(0.5), "hw of orders-0 stuck for 500ms"),
        (lag("readers", "orders", 0) > 100, "lag of readers on orders-0 > 100"),
        (replica_lag(3, "orders", 0) == 0, "lag of broker 3 on orders-0 == 0"),
        (log_says("Truncating"), "log of broker says 'Truncating'"),
        (log_says("Truncating", broker=1), "log of broker 1 says 'Truncating'"),
        (began("cut"), "cut began"),
        (ended("cut"), "cut ended"),
        (recovered("cut"), "cut recovered"),
    ],
)
def test_built_condition_equals_parsed_text(built: Conditions, written: str) -> None:
    assert Kill(target=1, when=built).when == parse_trigger(written)


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (leader("orders", 0), "leader of orders-0"),
        (followers("orders", 0), "followers of orders-0"),
        (brokers(2), 2),
        (brokers(1, 3), [1, 3]),
        (all_brokers(), "all"),
        (any_brokers(), "any broker"),
        (any_brokers(2), "any 2 brokers"),
        (rack("eu west"), "rack eu west"),
        (active_controller(), "active controller"),
        (minority_of_controllers(), "minority of controllers"),
        (majority_of_controllers(), "majority of controllers"),
        (share_coordinator("workers", "orders", 0), "share coordinator of workers on orders-0"),
    ],
)
def test_built_target_equals_parsed_text(built: TargetSpec, written: object) -> None:
    assert Kill(target=built).target == parse_target(written)


def test_fault_stores_plain_fields_and_dumps_scenario_text() -> None:
    fault = Kill(
        target=leader("orders", 0),
        when=acked(3000) & (isr("orders", 0) == 3),
        heal_when=leader("orders", 0).changed | after(5),
    )
    assert type(fault.target) is TargetSpec
    assert type(fault.when) is type(fault.heal_when) is Conditions
    document = {
        "fault": "kill",
        "target": "leader of orders-0",
        "when": ["3000 acked", "isr of orders-0 == 3"],
        "heal_when": ["leader of orders-0 changed or after 5s"],
    }
    assert fault.model_dump(mode="json", exclude_defaults=True) == {
        key: value for key, value in document.items() if key != "fault"
    }
    assert Kill.model_validate(document) == fault


def test_nested_and_and_or_keep_their_meaning() -> None:
    a, b, c, d = acked(10), sent(10), after(10), epoch("orders", 0) == 1
    expressions = [
        (a & b, lambda w, x, y, z: w and x),
        (a | b, lambda w, x, y, z: w or x),
        ((a & b) | c, lambda w, x, y, z: (w and x) or y),
        ((a | b) & (c | d), lambda w, x, y, z: (w or x) and (y or z)),
        ((a & b) | (c & d), lambda w, x, y, z: (w and x) or (y and z)),
        (a | a & b, lambda w, x, y, z: w),
    ]
    for w, x, y, z in product([False, True], repeat=4):
        now = observed(acked=10 * w, sent=10 * x, seconds=10 * y, leader_epoch=int(z))
        for built, holds in expressions:
            assert built.hold(now) == holds(w, x, y, z), str(built)
            assert parse_trigger([str(one) for one in built]) == Conditions(built)


@pytest.mark.parametrize("word", ["and", "or", "not", "chain"])
def test_python_words_do_not_combine_conditions(word: str) -> None:
    with pytest.raises(TypeError, match="combine conditions with & and"):
        _misused(word)


def _misused(word: str) -> Expression | bool:
    match word:
        case "and":
            return acked(1) and acked(2)
        case "or":
            return acked(1) or acked(2)
        case "chain":
            return 1 < isr("orders", 0) < 3
    return not acked(1)


def test_condition_without_scenario_text_is_refused() -> None:
    with pytest.raises(ValueError, match="'-1 acked' is not a condition"):
        acked(-1)
    with pytest.raises(ValueError, match="is not a condition"):
        log_says("it's full")
    with pytest.raises(ValueError, match="is not a condition"):
        isr("orders, 0", 0) == 1  # noqa: B015
    with pytest.raises(TypeError, match=r"the ISR of orders-0 is compared with an integer, not"):
        isr("orders", 0) > {1, 3}  # noqa: B015
    with pytest.raises(ValueError, match="any 0 brokers"):
        any_brokers(0)
