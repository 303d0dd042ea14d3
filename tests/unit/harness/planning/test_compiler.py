"""Elections, moves and held requests of a plan as faults of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ackproof.planning.compiler import client_holds, document, phases
from ackproof.planning.search import question
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import Budgets
from ackproof_model.planning import (
    CLIENT_HOLDS,
    Operation,
    OperationKind,
    Operations,
    carried_out,
)
from unit.reference_model.planning.schedules import (
    MISSED_EPOCH,
    REJOINED,
    REMOVED,
    at_once,
)


def scenario(
    brokers: int,
    *,
    kafka: str = "4.4.0",
    cluster: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
) -> Scenario:
    return validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": kafka,
            "cluster": {"brokers": brokers, **(cluster or {})},
            "topics": {
                "orders": {"assignment": [[2, 3, 1]], "settings": {"min.insync.replicas": 2}}
            },
            "workload": {
                "topic": "orders",
                "settings": {
                    "acks": "all",
                    "enable.idempotence": kafka == "4.4.0" or bool(workload),
                },
                **(workload or {}),
            },
        }
    )


def compiled(own: Scenario, budgets: Budgets, operations: Operations) -> dict[str, Any]:
    """Return the document, which the loader takes, and its faults that are not `none`."""
    plan = carried_out(question(own, budgets), operations)
    assert plan is not None
    made = document(own, plan, name="made", records=20, patience_s=60)
    validate(made)
    assert phases(plan)
    return made


@pytest.mark.parametrize(("patience_s", "seconds"), [(None, 900), (16, 16 + 60 + 90), (900, 900)])
def test_a_cluster_that_never_recovers_is_waited_for_as_long_as_the_states_and_once_more(
    patience_s: float | None, seconds: int
) -> None:
    """From the start: until some records are acked. Then a broker ends, with nothing more acked."""
    own = scenario(3)
    kill = [Operation(kind=OperationKind.KILL, broker=0, settled=False)]
    plan = carried_out(question(own, Budgets(kills=1)), kill)
    assert plan is not None
    made = document(own, plan, name="made", records=20, patience_s=patience_s)
    assert [one["fault"] for one in made["faults"]] == ["none", "kill"]
    assert made["workload"]["seconds"] == seconds
    assert made["workload"]["records"] == seconds * max(own.workload.rate, 1)


@pytest.mark.parametrize(("patience_s", "heal_after"), [(None, None), (16, "92s")])
def test_a_fault_whose_end_waits_for_what_never_begins_ends_all_the_same(
    patience_s: float | None, heal_after: str | None
) -> None:
    own = scenario(3)
    kinds = (OperationKind.KILL, OperationKind.START)
    plan = carried_out(
        question(own, Budgets(kills=1)), [Operation(kind=kind, broker=0) for kind in kinds]
    )
    assert plan is not None
    made = document(own, plan, name="made", records=20, patience_s=patience_s)
    [kill] = (one for one in made["faults"] if one["fault"] == "kill")
    assert kill["heal_when"]
    assert kill.get("heal_after") == heal_after


def test_held_requests_and_elections() -> None:
    made = compiled(scenario(3), Budgets(leader_moves=1, kills=2), MISSED_EPOCH)
    assert made["cluster"]["proxied"] == ["INTERNAL", "CONTROLLER"]
    faults = {one.get("id", "order"): one for one in made["faults"]}
    first, late, last = faults["step-1"], faults["step-2"], faults["step-5"]
    assert (first["target"], first["client"]) == ([2, 3], "broker-1-fetcher")
    assert (late["target"], late["client"]) == ("active controller", "raft-client-2")
    assert (last["target"], last["client"]) == (2, "broker-")
    assert all(one["action"] == "hold" for one in (first, late, last))
    assert late["heal_when"] == ["step-5 began"]
    assert faults["held-1"]["when"] == "hw of orders-0 stuck for 2s"
    assert faults["order"]["to"] == [1, 2, 3]
    assert faults["step-3"]["fault"] == "preferred_election"
    assert faults["rest-3"]["when"] == ["step-3 began"], "broker 2 answers what it knows"
    learned = [faults[f"rest-{stage}"]["when"] for stage in (4, 6)]
    assert learned == [
        [f"log of broker {broker} says 'starts at leader epoch 2 '"] for broker in (3, 2)
    ]
    assert faults["rest-7"]["when"][0] == "leader of orders-0 == 3"


def test_held_requests_for_another_isr() -> None:
    own = scenario(3, kafka="3.4.1")
    made = compiled(own, Budgets(kills=1, power_losses=1, leader_moves=1), REJOINED)
    faults = {one.get("id", "order"): one for one in made["faults"]}
    assert faults["step-2"] == {
        "fault": "link",
        "id": "step-2",
        "target": "active controller",
        "api": "AlterPartition",
        "direction": "request",
        "action": "hold",
        "client": "2",
        "within": "5m",
        "heal_when": ["rest-6 began"],
        "heal_after": "660s",
    }
    assert faults["rest-3"]["when"] == ["step-2 began"], "a request has come"
    assert faults["rest-6"]["when"] == ["log of broker 3 says 'Kafka Server started'"]
    assert faults["rest-7"]["when"] == ["leader of orders-0 == 2", "isr of orders-0 is {1, 2, 3}"]
    assert "The requests of broker 2 for another ISR are held." in made["description"]


def test_the_preferred_replica_is_elected_without_a_move() -> None:
    operations = (
        Operation(kind=OperationKind.KILL, broker=0),
        Operation(kind=OperationKind.START, broker=0),
        Operation(kind=OperationKind.ELECT, broker=0),
    )
    made = compiled(scenario(3), Budgets(leader_moves=1, kills=1), operations)
    kinds = [one["fault"] for one in made["faults"] if one["fault"] != "none"]
    assert kinds == ["kill", "preferred_election"]
    assert made["faults"][-2]["when"] == ["leader of orders-0 == 2", "isr of orders-0 is {1, 2, 3}"]


@pytest.mark.parametrize(
    ("kafka", "first", "when"),
    [
        ("0.10.2.2", at_once(OperationKind.KILL, 0), "after 2s"),
        ("0.10.2.2", Operation(kind=OperationKind.KILL, broker=0), None),
        ("3.9.1", at_once(OperationKind.KILL, 0), None),
    ],
)
def test_zookeeper_ends_sessions_one_by_one_if_brokers_end_in_different_ticks(
    kafka: str, first: Operation, when: str | None
) -> None:
    kills = (first, Operation(kind=OperationKind.KILL, broker=1))
    made = compiled(scenario(3, kafka=kafka), Budgets(kills=2), kills)
    faults = {one["id"]: one for one in made["faults"]}
    assert faults["step-2"].get("when") == when
    assert "when" not in faults["step-1"]


def test_moves_go_to_another_broker_and_back() -> None:
    budgets = Budgets(reassignments=2, shrinks=2, kills=1)
    made = compiled(scenario(4), budgets, REMOVED)
    assert made["topics"]["orders"]["assignment"] == [[2, 3, 1]]
    moves = [one["to"] for one in made["faults"] if one["fault"] == "reassign"]
    assert moves == [[4, 3, 1], [2, 3, 1]]
    lags = [one["client"] for one in made["faults"] if one["fault"] == "link"]
    assert lags == ["broker-3-fetcher", "broker-1-fetcher"]


def test_without_elections_links_are_cut() -> None:
    operations = (
        Operation(kind=OperationKind.LAG, broker=1),
        Operation(kind=OperationKind.CUT_OFF, broker=2),
    )
    made = compiled(scenario(3), Budgets(shrinks=1, fencings=1), operations)
    assert "proxied" not in made.get("cluster", {})
    kinds = [one["fault"] for one in made["faults"] if one["fault"] != "none"]
    assert kinds == ["partition", "partition"]


TRANSACTIONS = {"producers": 4, "transactions": {"size": 20}}


def held(kind: OperationKind, *, settled: bool = True) -> Operations:
    end = Operation(kind=OperationKind.JOIN, broker=0, ends=kind)
    return Operation(kind=kind, broker=0, settled=settled), end


@pytest.mark.parametrize(
    ("kafka", "cluster", "workload", "holds"),
    [
        ("4.4.0", {}, TRANSACTIONS, CLIENT_HOLDS),
        ("4.4.0", {}, {}, ()),
        ("4.4.0", {"security": {"tls": "server"}}, TRANSACTIONS, ()),
        ("2.6.2", {}, TRANSACTIONS, ()),
    ],
)
def test_only_requests_of_transactions_that_the_proxy_can_read_are_held(
    kafka: str, cluster: dict[str, Any], workload: dict[str, Any], holds: tuple[OperationKind, ...]
) -> None:
    assert client_holds(scenario(3, kafka=kafka, cluster=cluster, workload=workload)) == holds


def test_a_record_is_held_until_its_producer_writes_again() -> None:
    own = scenario(3, workload=TRANSACTIONS)
    made = compiled(own, Budgets(kills=1), held(OperationKind.HOLD_WRITES))
    assert (made["cluster"]["listeners"], made["cluster"]["proxied"]) == (["LINK"], ["LINK"])
    assert made["workload"]["listener"] == "LINK"
    faults = {one["id"]: one for one in made["faults"]}
    first, behind = faults["step-1"], faults["next-1"]
    assert (first["api"], first["target"], first["client"]) == ("Produce", 2, "ackproof-producer-0")
    assert {key: behind[key] for key in ("api", "target", "client")} == {
        key: first[key] for key in ("api", "target", "client")
    }
    assert (first["count"], "count" in behind) == (1, False), "everything behind it is held"
    assert (behind["when"], behind["heal_when"]) == (["step-1 began"], ["step-1 recovered"])
    assert faults["rest-1"]["when"] == ["next-1 began"], "it has given up, and writes again"
    assert first["heal_when"] == ["acked-1 began"], "others go on"
    assert faults["rest-2"]["when"] == ["step-1 recovered"]
    assert "A record to broker 2 is held." in made["description"]


def test_the_only_producer_writes_nothing_while_its_record_is_held() -> None:
    own = scenario(3, workload={**TRANSACTIONS, "producers": 1})
    made = compiled(own, Budgets(kills=1), held(OperationKind.HOLD_WRITES))
    assert [one["id"] for one in made["faults"] if one["id"].startswith("acked")] == [
        "acked-0",
        "acked-2",
    ]
    assert made["faults"][1]["heal_when"] == ["rest-1 began"]


@pytest.mark.parametrize(
    ("settings", "stuck_s"), [({}, "48"), ({"request.timeout.ms": 3000}, "4.8")]
)
def test_the_end_of_a_transaction_is_held_until_the_next_ones_wait_for_theirs(
    settings: dict[str, Any], stuck_s: str
) -> None:
    own = scenario(3, cluster={"settings": settings}, workload=TRANSACTIONS)
    made = compiled(own, Budgets(kills=1), held(OperationKind.HOLD_MARKERS))
    assert made["cluster"]["proxied"] == ["INTERNAL", "LINK"]
    faults = {one["id"]: one for one in made["faults"]}
    first, behind = faults["step-1"], faults["next-1"]
    assert (first["api"], first["target"], first["count"]) == ("WriteTxnMarkers", 2, 1)
    assert (behind["api"], behind["target"]) == ("EndTxn", "all")
    assert (behind["when"], behind["heal_when"]) == (["step-1 began"], ["step-1 recovered"])
    sent_again = f"hw of orders-0 stuck for {stuck_s}s"
    assert faults["rest-1"]["when"] == ["next-1 began", sent_again]
    assert "acked-1" not in faults, "no transaction ends"
    assert first["heal_when"] == ["rest-1 began"]


@pytest.mark.parametrize("kind", CLIENT_HOLDS)
def test_a_request_that_is_held_for_a_moment_holds_nothing_behind_it(kind: OperationKind) -> None:
    own = scenario(3, workload=TRANSACTIONS)
    made = compiled(own, Budgets(kills=1), held(kind, settled=False))
    assert not [one for one in made["faults"] if one["id"].startswith("next")]


@pytest.mark.parametrize("kind", CLIENT_HOLDS)
def test_what_is_never_let_go_ends_with_the_schedule(kind: OperationKind) -> None:
    own = scenario(3, workload=TRANSACTIONS)
    made = compiled(own, Budgets(kills=1), held(kind)[:1])
    faults = {one["id"]: one for one in made["faults"]}
    assert faults["step-1"]["heal_when"] == [f"{made['faults'][-1]['id']} began"]
    assert "heal_after" in faults["step-1"]


def test_with_elections_nodes_and_clients_are_behind_the_proxy() -> None:
    own = scenario(3, workload=TRANSACTIONS)
    made = compiled(own, Budgets(leader_moves=1), held(OperationKind.HOLD_MARKERS))
    assert made["cluster"]["proxied"] == ["INTERNAL", "CONTROLLER", "LINK"]
