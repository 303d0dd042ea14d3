"""The form `missed-epochs` of `ci/lab/without-holds`: a leader that does not learn of an epoch.

In each turn broker 2 ends, so that 3 leads every partition of `orders`. Then the disk of 3 is slow,
and an operator adds partitions of another topic that 3 leads: until it has created them, it applies
no other change. Meanwhile the balancer elects 2 again, which then crashes, so that 3 is elected.
Where 3 applies both elections at once, it has missed an epoch. The disk is fast again then, and 3
is killed as soon as it leads.

Tried without success: a paused leader (it is fenced before it runs again), one that is cut off from
the controllers (its session ends before that of the crashed broker), and one whose disk is slow
while it applies that it leads (until it has, it does not know that 2 is back, so 2 does not join
the ISR, and cannot be elected).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ackproof.runs.directory import table_rows

BROKERS = 3
ASSIGNMENT = [2, 3, 1]
SETTINGS: Mapping[str, Any] = {
    "auto.leader.rebalance.enable": True,
    "leader.imbalance.check.interval.seconds": 30,
}
#: A topic to which each turn adds partitions.
MORE: Mapping[str, Any] = {"payments": {"assignment": [[3, 1, 2]]}}

#: Partitions that a turn adds, and operations of the disk a second. At 60 broker 3 created 10 a
#: second; it must be busy for longer than a session (9 s) from the balancer's election on.
_ADDED, _OPERATIONS = 200, 25

#: A fault that each turn has once, before what may lose records.
ONCE = "slow_disk"

#: A replica's truncation and the leader's acks belong to its election within these times.
_BEFORE, _AFTER = timedelta(seconds=30), timedelta(seconds=5)

#: Partitions that are asked whether every replica is in sync.
_ASKED = (0, 17, 42, 68, 99)

#: What brokers 1 and 2 log when 3 is elected after 2, and 2 after 3.
_ELECTED, _NEXT = "Current leader is 3. Previous leader Some(2)", "Previous leader Some(3)"

_PREVIOUS = re.compile(r"Previous leader (?:Some\()?(\d+)\)? and previous leader epoch was (\d+)")


def turns(number: int) -> Sequence[Sequence[Mapping[str, Any]]]:
    """Return the faults of so many turns."""
    return [_turn(partitions=1 + _ADDED * (turn + 1)) for turn in range(number)]


def _turn(*, partitions: int) -> Sequence[Mapping[str, Any]]:
    crash = {"fault": "kill", "heal_after": "1s"}
    whole = [f"isr of orders-{partition} == 3" for partition in _ASKED]
    leads = [f"leader of orders-{partition} == 3" for partition in _ASKED]
    return [
        {"fault": "kill", "id": "before", "target": 2, "or_after": "120s",
         "when": ["leader of orders-0 == 2", *whole], "heal_when": "slow began"},
        {"fault": ONCE, "id": "slow", "target": 3, "rate": 1_048_576, "operations": _OPERATIONS,
         "when": leads, "or_after": "120s",
         "heal_when": f"log of broker 1 says '{_ELECTED}' or after 120s"},
        {"fault": "none", "when": ["before ended", *whole], "or_after": "120s",
         "heal_after": "1s"},
        {"parallel": [
            {"fault": "add_partitions", "id": "more", "topic": "payments",
             "partitions": partitions, "within": "120s", "heal_after": "1s"},
            {**crash, "id": "next", "target": 2, "when": f"log of broker 2 says '{_NEXT}'",
             "or_after": "45s"},
            {**crash, "id": "gone", "target": 3, "or_after": "90s",
             "when": ["next began", "log of broker 3 says 'Leader orders-'"]},
        ]},
        {"fault": "none", "id": "whole", "when": ["gone recovered", *whole], "or_after": "120s",
         "heal_after": "1s"},
    ]  # fmt: skip


class Missed(NamedTuple):
    """A broker led again without having learned that another led in between."""

    partition: int
    broker: int
    offset: int
    at: datetime


def counts(run_dir: Path, turn_of: Callable[[datetime], int]) -> dict[str, int]:
    """Return the missed epochs, the turns that have one, and the acks below a truncation."""
    events = list(table_rows(run_dir, "broker_events"))
    missed = list(missed_epochs(events))
    acked = [one for one in table_rows(run_dir, "ledger") if one["outcome"] == "acked"]
    return {
        "missed_epochs": len(missed),
        "turns_with_a_missed_epoch": len({turn_of(one.at) for one in missed}),
        "acks_below_a_truncation": early_acks(acked, events, missed),
    }


def missed_epochs(events: Iterable[Mapping[str, Any]]) -> Iterator[Missed]:
    """Yield the leaders that name themselves as the previous leader of an older epoch."""
    for one in events:
        if one["kind"] != "leader" or not (previous := _PREVIOUS.search(one["text"])):
            continue
        leader, epoch = map(int, previous.groups())
        if leader == one["broker"] and one["leader_epoch"] > epoch + 1:
            yield Missed(
                partition=one["partition"], broker=leader, offset=one["offset"], at=one["at"]
            )


def early_acks(
    acked: Iterable[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    missed: Sequence[Missed],
) -> int:
    """Return the acks of such leaders for records that a replica had truncated shortly before.

    Those records are below the leader's log end at its election.
    """
    below: dict[int, list[tuple[int, int, datetime]]] = {}
    for one in missed:
        truncated = [
            event["offset"]
            for event in events
            if event["kind"] == "truncated"
            and event["partition"] == one.partition
            and event["broker"] != one.broker
            and one.at - _BEFORE <= event["at"] <= one.at + _AFTER
        ]
        if truncated:
            below.setdefault(one.partition, []).append((min(truncated), one.offset, one.at))
    return sum(
        any(
            first <= one["offset"] < end and at <= one["resolved_at"] <= at + _AFTER
            for first, end, at in below.get(one["partition"], ())
        )
        for one in acked
    )
