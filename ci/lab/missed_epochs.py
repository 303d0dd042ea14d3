"""The form `missed-epochs` of `ci/lab/without-holds`: a leader that does not learn of an epoch.

In each turn broker 2 ends, so that 3 leads every partition. It is back, and while the balancer
elects it again, 3 is cut off from the controllers, and nothing else is. Then 2 ends once more, and
3 is elected. Once 3 reaches the controllers it may apply both elections at once; after its first
ack it is killed.

This has not led to a missed epoch yet: a controller notices that 2 has crashed only once its
session ends (until then it refuses the new process, `DuplicateBrokerRegistrationException`), and
that of 3, which was cut off before, ends first. It takes a leader that sends heartbeats and applies
elections late, such as one that is busy with an earlier change of many partitions on a slow disk.

(While 3 does not reach the controllers, no other broker can end by SIGTERM: a controller lets a
broker shut down only once every active broker has read that its leaders have moved. Nor can an
operator's tool be used: it may ask 3, which cannot forward a request.)
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
    "leader.imbalance.check.interval.seconds": 10,
    "leader.imbalance.per.broker.percentage": 0,
    # Broker 3 stays in the ISR while it is cut off.
    "broker.session.timeout.ms": 90_000,
    "replica.lag.time.max.ms": 90_000,
}
TOPIC_SETTINGS: Mapping[str, Any] = {}

#: A fault that each turn has once, before what may lose records.
ONCE = "partition"

#: A replica's truncation and the leader's acks belong to its election within these times.
_BEFORE, _AFTER = timedelta(seconds=30), timedelta(seconds=5)

_PREVIOUS = re.compile(r"Previous leader (?:Some\()?(\d+)\)? and previous leader epoch was (\d+)")


def turns() -> Sequence[Sequence[Mapping[str, Any]]]:
    """Return the faults of a turn."""
    waits = {"fault": "none", "heal_after": "1s"}
    crash = {"fault": "kill", "heal_after": "1s"}
    return [[
        {**crash, "id": "before", "target": 2, "when": "leader of orders-0 == 2"},
        {"fault": ONCE, "id": "cut", "target": 3, "peers": "controllers", "or_after": "60s",
         "when": ["leader of orders-0 == 3", "isr of orders-0 == 3"], "heal_when": "back ended"},
        {**crash, "id": "next", "target": 2, "when": "leader of orders-0 == 2", "or_after": "30s"},
        {**waits, "id": "back", "when": "leader of orders-0 == 3", "or_after": "30s"},
        {**crash, "id": "gone", "target": 3, "when": ["cut ended", "1 more acked"],
         "or_after": "10s"},
        {**waits, "id": "whole", "when": ["gone recovered", "isr of orders-0 == 3"]},
    ]]  # fmt: skip


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
