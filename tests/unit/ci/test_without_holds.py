"""The counts of `ci/lab/without-holds`."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from missed_epochs import Missed, early_acks, missed_epochs
from without_holds import FORMS, beginnings, elections, scenario, total, wilson

from ackproof.scenario.loader import load


def at(second: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def leads(epoch: int, previous: str, previous_epoch: int, *, broker: int = 3) -> dict[str, Any]:
    text = f"Previous leader {previous} and previous leader epoch was {previous_epoch}."
    return {
        "kind": "leader",
        "broker": broker,
        "partition": 0,
        "leader_epoch": epoch,
        "offset": 73,
        "at": at(60),
        "text": text,
    }


def truncated(offset: int, *, second: float, broker: int = 1) -> dict[str, Any]:
    return {
        "kind": "truncated",
        "broker": broker,
        "partition": 0,
        "offset": offset,
        "at": at(second),
    }


def ack(offset: int, second: float) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "resolved_at": at(second)}


@pytest.mark.parametrize(
    ("event", "missed"),
    [
        (leads(2, "Some(3)", 0), True),
        (leads(2, "3", 0), True),  # before 3.5
        (leads(1, "Some(3)", 0), False),  # it leads on: only the epoch is new
        (leads(2, "Some(2)", 1), False),  # it learned of the leader in between
        (leads(2, "None", -1), False),
        (truncated(68, second=50), False),
    ],
)
def test_a_leader_missed_an_epoch_if_it_led_before_and_the_epoch_skips_one(
    event: dict[str, Any], missed: bool
) -> None:
    assert bool(list(missed_epochs([event]))) is missed


@pytest.mark.parametrize(
    ("truncation", "early"),
    [
        (truncated(68, second=50), 5),
        (truncated(70, second=50), 3),
        (truncated(68, second=20), 0),  # another election's
        (truncated(68, second=50, broker=3), 0),  # its own
        (truncated(73, second=50), 0),
    ],
)
def test_acks_of_what_a_replica_had_truncated_are_counted(
    truncation: dict[str, Any], early: int
) -> None:
    missed = [Missed(partition=0, broker=3, offset=73, at=at(60))]
    acked = [ack(67, 60.1), *(ack(offset, 60.1) for offset in range(68, 73)), ack(73, 60.2)]
    before = [ack(offset, 59) for offset in range(68, 73)]
    assert early_acks([*before, *acked], [truncation], missed) == early


@pytest.mark.parametrize("form", FORMS)
def test_each_turn_of_a_scenario_is_counted(form: str, tmp_path: Path) -> None:
    chosen = argparse.Namespace(form=form, kafka="4.4.0", partitions=100, rate="500/s")
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario(chosen, turns=3)))
    load(file)
    blocks = json.loads(file.read_text())["faults"]
    names = [one["fault"] for block in blocks for one in block["sequence"] if "fault" in one]
    windows = [
        {"fault": fault, "injected_at": at(second)} for second, fault in enumerate(names, start=1)
    ]
    assert len(beginnings(windows, FORMS[form].ONCE)) == 3


def test_every_new_leader_is_an_election() -> None:
    leaders = [(0, 3), (0, 3), (0, 2), (1, 1), (0, -1), (0, 2), (1, 3)]
    assert elections({"partition": number, "leader": leader} for number, leader in leaders) == 2


@pytest.mark.parametrize(
    ("losing", "turns", "bound"), [(0, 20, 0.1611), (1, 20, 0.2361), (0, 50, 0.0713)]
)
def test_the_bound_is_wilsons(losing: int, turns: int, bound: float) -> None:
    assert round(wilson(losing, turns), 4) == bound


def test_a_series_has_the_sums_and_the_bound_of_all_its_turns() -> None:
    runs = [
        {"partitions": 1000, "run": "x", "turns": 5, "lost": 7 * lost, "turns_that_lost": lost}
        for lost in (0, 1)
    ]
    sums = {"turns": 10, "lost": 7, "turns_that_lost": 1, "upper_bound": round(wilson(1, 10), 4)}
    assert total(runs) == sums
    assert total([])["upper_bound"] == 1
