"""Translation of faults, targets and conditions for the exact search."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from ackproof.prediction.exact import exact_effects, schedules, unsupported
from ackproof.prediction.predict import partition_of
from ackproof.scenario.model import Scenario
from ackproof_model import (
    AnyOf,
    AnyTime,
    Configures,
    Cuts,
    Effect,
    Elapsed,
    Elects,
    Ends,
    FaultEvent,
    Injection,
    IsrIs,
    LeaderIs,
    QuorumLost,
    Role,
    Stalls,
)
from ackproof_model.effects import Partition
from unit.harness.prediction.scenarios import scenario

LEADER = {"target": "leader of orders-0"}
TOPIC = {"topic": "orders"}
ASSIGNED = {"orders": {"assignment": [[3, 1, 2]]}}
REPLICATION, CONTROLLERS = Cuts(channels=("replication",)), Cuts(channels=("controllers",))


def asked(*faults: dict[str, Any], **changes: Any) -> tuple[Scenario, Partition]:
    given = scenario(*faults, **changes)
    return given, partition_of(given, "orders", 0)


def effects(fault: dict[str, Any], **changes: Any) -> tuple[Effect, ...] | None:
    given, partition = asked(fault, **changes)
    return exact_effects(given, partition, given.faults[0])


def reading(*faults: dict[str, Any], **changes: Any) -> tuple[Injection, ...]:
    here = asked(*faults, **changes)
    assert not unsupported(*here)
    (only,) = schedules(*here)
    return only


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"fault": "pause", **LEADER}, (Stalls(),)),
        ({"fault": "wipe_partition", **LEADER}, (Ends(log="empty"),)),
        ({"fault": "wipe_partition", **LEADER, "partitions": "orders-1"}, (Ends(),)),
        ({"fault": "power_loss", **LEADER, "partitions": "orders-1"}, (Ends(),)),
        ({"fault": "old_checkpoint", **LEADER}, (Ends(),)),
        ({"fault": "kill_cluster"}, (Ends(), QuorumLost())),
        ({"fault": "partition", **LEADER}, (REPLICATION,)),
        ({"fault": "partition", **LEADER, "direction": "to_peers"}, (REPLICATION,)),
        ({"fault": "partition", **LEADER, "peers": "controllers"}, (CONTROLLERS,)),
        (
            {"fault": "partition", **LEADER, "peers": "clients", "direction": "to_peers"},
            (Cuts(channels=("clients",), direction="to_peers"),),
        ),
        ({"fault": "split", **LEADER, "controllers": "others"}, (REPLICATION, CONTROLLERS)),
        (
            {"fault": "split", **LEADER, "controllers": "targets"},
            (REPLICATION, Cuts(channels=("controllers",), nodes="others")),
        ),
        (
            {"fault": "isolate", **LEADER},
            (
                Cuts(channels=("replication",), among=True),
                CONTROLLERS,
                Cuts(channels=("clients",)),
            ),
        ),
        (
            {"fault": "unclean_election", **TOPIC},
            (Elects(topic="orders", partition=None, unclean=True),),
        ),
        ({"fault": "preferred_election", **TOPIC, "partition": 1}, ()),
        (
            {"fault": "alter_config", **TOPIC, "key": "min.insync.replicas", "value": 1},
            (Configures(topic="orders", key="min.insync.replicas", value="1"),),
        ),
        ({"fault": "alter_config", **TOPIC, "key": "retention.ms", "value": 10**9}, ()),
        ({"fault": "kill", "target": "active controller"}, (QuorumLost(),)),
        ({"fault": "pause", "target": "majority of controllers"}, (QuorumLost(),)),
        # Controllers fsync what they commit.
        ({"fault": "power_loss", "target": "active controller"}, (QuorumLost(),)),
    ],
)
def test_faults_have_effects_in_the_exact_search(
    fault: dict[str, Any], expected: tuple[Effect, ...]
) -> None:
    assert effects(fault) == expected


@pytest.mark.parametrize(
    ("cluster", "topic", "log"),
    [
        ({}, {}, "prefix"),
        ({}, {"flush.messages": 1}, "kept"),
        ({"log.flush.interval.messages": 1}, {}, "kept"),
        ({"log.flush.interval.messages": 1}, {"flush.messages": 100}, "prefix"),
    ],
)
def test_power_loss_keeps_records_that_are_fsynced_before_their_ack(
    cluster: dict[str, Any], topic: dict[str, Any], log: Literal["prefix", "kept"]
) -> None:
    settings = {"cluster": {"settings": cluster}, "topics": {"orders": {"settings": topic}}}
    fault = {"fault": "power_loss", **LEADER}
    assert effects(fault, **settings) == (Ends(log=log),)
    assert effects({**fault, "last": 5}, **settings) == (Ends(log=log),)
    # It says itself what it keeps, or a setting is changed while it runs.
    assert effects({**fault, "to_offset": 5}, **settings) == (Ends(log="prefix"),)
    later = {"fault": "alter_config", **TOPIC, "key": "flush.messages", "value": 100}
    given, partition = asked(fault, later, **settings)
    assert exact_effects(given, partition, given.faults[0]) == (Ends(log="prefix"),)


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ({"fault": "half_open", **LEADER}, {}),  # connections stay open
        ({"fault": "crash_loop", **LEADER}, {}),
        ({"fault": "flapping", **LEADER}, {}),
        ({"fault": "partition", **LEADER, "peers": [2]}, {}),
        ({"fault": "partition", **LEADER, "peers": "clients", "how": "reject"}, {}),
        ({"fault": "partition", **LEADER, "peers": "clients"}, {"cluster": {"listeners": ["OUT"]}}),
        ({"fault": "isolate", **LEADER}, {"kafka": "2.6.2"}),  # the controller is a broker
        ({"fault": "wipe_volume", **LEADER}, {}),  # KIP-858
        ({"fault": "old_checkpoint", **LEADER}, {"kafka": "0.10.2.2"}),
        ({"fault": "kill_cluster"}, {"kafka": "2.6.2"}),
        ({"fault": "kill", "target": "active controller"}, {"cluster": {"controllers": 3}}),
        ({"fault": "partition", "target": "active controller"}, {}),
        ({"fault": "lying_disk", "target": "active controller", "last": 9}, {}),
        ({"fault": "alter_config", **TOPIC, "key": "cleanup.policy", "value": "compact"}, {}),
        ({"fault": "recreate_topic", **TOPIC}, {}),
        ({"fault": "latency", **LEADER, "delay": "1s"}, {}),
    ],
)
def test_unsupported_effects_are_left_to_the_worst_case(
    fault: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert effects(fault, **changes) is None
    assert "the fault" in unsupported(*asked(fault, **changes))


@pytest.mark.parametrize(
    ("faults", "changes", "why"),
    [
        ([{"fault": "kill", **LEADER}], {"cluster": {"combined": True}}, "also controllers"),
        ([{"fault": "kill_cluster"}], {}, "while the controllers may have ended"),
        (
            [{"fault": "kill", "target": "active controller"}, {"fault": "power_loss", **LEADER}],
            {},
            "while the controllers may have ended",
        ),
        (
            [
                {"fault": "pause", **LEADER},
                {"fault": "alter_config", **TOPIC, "key": "min.insync.replicas", "value": 1},
            ],
            {},
            "a change of settings",
        ),
    ],
)
def test_some_schedules_are_left_to_the_worst_case(
    faults: list[dict[str, Any]], changes: dict[str, Any], why: str
) -> None:
    here = asked(*faults, **changes)
    assert why in unsupported(*here)
    assert not list(schedules(*here))


KILL, CUT = {"fault": "kill", **LEADER}, {"fault": "isolate_replication", **LEADER}
NONE = {"fault": "none"}
AFTER_5S = {"when": ["1 acked", "9 more acked"], "or_after": "5s"}


def orders(*steps: dict[str, Any]) -> list[list[str]]:
    return [[one.fault for one in order] for order in schedules(*asked(*steps))]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"one_of": [KILL, CUT]}, [["kill"], ["isolate_replication"]]),
        ({"parallel": [KILL, NONE]}, [["kill", "none"], ["none", "kill"]]),
        ({"sequence": [KILL, NONE], "repeat": 2}, [["kill", "none", "kill", "none"]]),
        ({"sequence": [CUT], "probability": 0.5}, [[], ["isolate_replication"]]),
        ({"sequence": [{"one_of": [KILL, NONE]}, KILL]}, [["kill", "kill"], ["none", "kill"]]),
    ],
)
def test_every_order_of_a_block_is_searched(
    step: dict[str, Any], expected: list[list[str]]
) -> None:
    assert orders(step) == expected


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"random": [KILL], "for": "30s"}, "random blocks"),
        ({"sequence": [KILL], "every": "5s", "for": "30s"}, "loops without"),
        ({"sequence": [KILL], "repeat": 2, "probability": 0.5}, "loops without"),
        ({"sequence": [KILL], "repeat": 5}, "5 faults (at most 4"),
        ({"parallel": [KILL, {"sequence": [CUT]}]}, "parallel blocks of blocks"),
        ({"parallel": [KILL, {"fault": "restart", "target": 2}]}, "controlled shutdowns"),
        ({"parallel": [KILL] * 4}, "more than 6 orders"),
    ],
)
def test_blocks_without_a_few_orders_are_left_to_the_worst_case(
    step: dict[str, Any], why: str
) -> None:
    assert why in unsupported(*asked(step))


@pytest.mark.parametrize(
    ("faults", "exact"),
    [
        ([KILL], True),
        ([{"fault": "pause", **LEADER}], True),
        ([KILL, {"fault": "kill", "target": 2}], False),  # two of three may be away at once
        ([{"fault": "kill", "target": "followers of orders-0"}], False),
        ([{"fault": "restart", **LEADER}], False),
        ([CUT], False),
    ],
)
def test_brokers_that_are_also_controllers_may_be_away_while_a_majority_stays(
    faults: list[dict[str, Any]], exact: bool
) -> None:
    why = unsupported(*asked(*faults, cluster={"combined": True, "controllers": 3}))
    assert why == ("" if exact else "faults on brokers that are also controllers")


def test_a_step_after_a_block_awaits_its_recovery_and_counts_from_its_end() -> None:
    cut, kill = reading({"sequence": [CUT]}, {**KILL, **AFTER_5S})
    assert cut.heal_when == (AnyTime(),)  # with its block
    assert kill.when == (AnyTime(), FaultEvent(fault=0, event="recovered"))
    assert kill.or_after is None


def test_conditions_of_parallel_faults_do_not_count_from_each_other() -> None:
    later = {**CUT, "when": ["1 acked", "leader of orders-0 changed"], "heal_after": "3s"}
    (_, second), _ = schedules(*asked({"parallel": [KILL, later]}))
    assert second.when == (AnyTime(),)
    assert second.heal_or_after == 3


def test_a_drawn_target_is_any_broker_each_time() -> None:
    drawn = {"fault": "kill", "target": "any broker"}
    assert [one.targets for one in reading(drawn, drawn)] == [frozenset({Role.ANY_ONE})] * 2


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ({"fault": "purge_client"}, {}),
        ({"fault": "skew_timestamps", "by": "90m"}, {}),
        ({"fault": "add_partitions", **TOPIC, "partitions": 9}, {}),
        ({"fault": "upgrade_feature", "feature": "transaction.version", "level": 2}, {}),
        ({"fault": "flip_byte", **LEADER, "partitions": "orders-1"}, {}),
    ],
)
def test_effects_whose_worst_case_is_nothing_leave_the_partition_alone(
    fault: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert effects(fault, **changes) == ()


def test_a_slow_broker_without_a_replica_is_not_left_out() -> None:
    slow = {"fault": "latency", "target": 4, "delay": "1s"}
    assert effects(slow, topics=ASSIGNED, cluster={"brokers": 4}) is None


@pytest.mark.parametrize(
    ("target", "numbers"), [(3, {0}), ([1, 2], {1, 2}), ([1, 2, 3], {0, 1, 2}), ("all", {0, 1, 2})]
)
def test_broker_ids_are_replicas_where_the_assignment_is_known(
    target: object, numbers: set[int]
) -> None:
    (kill,) = reading({"fault": "kill", "target": target}, topics=ASSIGNED)
    assert kill.targets == numbers


def test_a_broker_without_a_replica_is_no_target() -> None:
    (kill,) = reading({"fault": "kill", "target": 4}, topics=ASSIGNED, cluster={"brokers": 4})
    assert kill.targets == frozenset()


@pytest.mark.parametrize(
    ("text", "assigned", "expected"),
    [
        ("leader of orders-0 == 1", True, LeaderIs(replica=1)),
        ("leader of orders-0 == 1", False, AnyTime()),
        ("leader of orders-0 != none", False, LeaderIs(replica=None, equal=False)),
        ("isr of orders-0 is {3, 2}", True, IsrIs(members=frozenset({0, 2}))),
        ("isr of orders-0 is {3, 2}", False, AnyTime()),
        ("epoch of orders-0 >= 2", True, AnyTime()),
        ("cut began", True, FaultEvent(fault=0, event="began")),
        (
            "none recovered",
            True,
            AnyOf(alternatives=tuple(FaultEvent(fault=n, event="recovered") for n in (0, 1))),
        ),
        (
            "after 5s or cut ended",
            True,
            AnyOf(alternatives=(Elapsed(seconds=5), FaultEvent(fault=0, event="ended"))),
        ),
    ],
)
def test_conditions_are_those_of_the_model(text: str, assigned: bool, expected: object) -> None:
    first = {"fault": "none", "id": "cut", "heal_after": "1s"}
    second = {"fault": "none", "when": text}
    found = reading(first, second, **({"topics": ASSIGNED} if assigned else {}))
    assert found[1].when == (expected,)
