"""Which schedules the search that keeps the order of faults follows, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.prediction.exact import exact_effects, in_order, unsupported
from ackproof.prediction.predict import partition_of, predict
from ackproof.scenario.loader import load
from ackproof_model import AnyTime, Effect, LateFetches, LateIsrChanges, LateMetadata
from ackproof_model.effects import Reassigns
from unit.harness.prediction.scenarios import scenario

CATALOGUE = Path(__file__).parents[4] / "scenarios" / "catalogue"
MISSED, REJOINED = "b56-missed-leader-epoch.yaml", "b31-stale-rejoin.yaml"
PROXIED = {"proxied": ["INTERNAL", "CONTROLLER"]}
ASSIGNED = {"orders": {"assignment": [[3, 1, 2]]}}
HELD = {"fault": "link", "api": "Fetch", "direction": "request", "action": "hold"}
FETCHER = {**HELD, "target": 3, "client": "broker-2-fetcher"}
METADATA = {**HELD, "target": "active controller", "client": "raft-client-3"}
ISR_CHANGES = {**METADATA, "api": "AlterPartition", "client": "3"}
MOVE = {"fault": "reassign", "topic": "orders"}


def effects(fault: dict[str, Any], **changes: Any) -> tuple[Effect, ...] | None:
    cluster = {**PROXIED, **changes.pop("cluster", {})}
    given = scenario(fault, cluster=cluster, **{"topics": ASSIGNED, **changes})
    return exact_effects(given, partition_of(given, "orders", 0), given.faults[0])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (FETCHER, (LateFetches(followers=(2,), held=True),)),
        ({**FETCHER, "client": ""}, (LateFetches(followers=(0, 1, 2), held=True),)),
        # Not every request: other fetchers of the broker, and those after the first.
        ({**FETCHER, "client": "broker-2-fetcher-0"}, (LateFetches(followers=(2,)),)),
        ({**FETCHER, "count": 1}, (LateFetches(followers=(2,)),)),
        ({**FETCHER, "action": "delay", "delay": "5s"}, (LateFetches(followers=(2,)),)),
        ({**FETCHER, "direction": "response"}, (LateFetches(followers=(2,)),)),
        (METADATA, (LateMetadata(brokers=(0,)),)),
        (ISR_CHANGES, (LateIsrChanges(),)),
        ({**MOVE, "to": [2, 3, 1]}, (Reassigns(to=(2, 0, 1)),)),
        # Not followed: another action, other clients, a client that a controller may be, too.
        ({**FETCHER, "action": "drop"}, None),
        ({**FETCHER, "client": "payments"}, None),
        ({**METADATA, "client": "raft-client-1"}, None),
        ({**METADATA, "client": ""}, None),
        ({**ISR_CHANGES, "direction": "response"}, None),
        ({**ISR_CHANGES, "action": "drop"}, None),
    ],
)
def test_what_a_held_request_and_another_order_of_replicas_are_to_the_search(
    fault: dict[str, Any], expected: tuple[Effect, ...] | None
) -> None:
    assert effects(fault) == expected


def test_a_new_broker_has_the_next_number_and_unknown_replicas_are_not_followed() -> None:
    four = {"cluster": {"brokers": 4}}
    assert effects({**MOVE, "to": [4, 1, 2]}, **four) == (Reassigns(to=(3, 1, 2)),)
    assert effects({**MOVE, "to": [3, 1, 2]}, topics={"orders": {}}) is None


def test_only_this_search_follows_them_and_later_faults_do_not_wait() -> None:
    next_one = {"fault": "kill", "target": 3, "when": "slow began"}
    given = scenario({**FETCHER, "id": "slow"}, next_one, cluster=PROXIED, topics=ASSIGNED)
    partition = partition_of(given, "orders", 0)
    assert unsupported(given, partition) == "the fault link here"
    ((_, kill),) = in_order(given, partition)
    assert kill.when == (AnyTime(),)


@pytest.mark.parametrize(
    ("file", "arm", "lost"),
    [
        (MISSED, "the next leader ends", "possible"),
        (MISSED, "the next leader ends, metadata in time", "impossible"),
        # Before 3.9.1 a late fetch response may lose records: only a loss is an answer there.
        (REJOINED, "a replica moves, on 3.4.1", "possible"),
        (REJOINED, "a replica moves", "impossible"),
    ],
)
def test_a_case_is_predicted_and_its_twin_excluded(file: str, arm: str, lost: str) -> None:
    record = predict(next(one.scenario for one in load(CATALOGUE / file) if one.name == arm))
    assert record.predicted["lost"] == record.predicted["inconsistent"] == lost
    assert "in the order of the faults" in record.prediction.bounds
    assert bool(record.prediction.trace) is (lost == "possible")
