from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ackproof.prediction.predict import partition_of, predict
from ackproof.prediction.worst_case import total
from ackproof_model.perturbations import NOTHING, Counts, WorstCase
from unit.harness.prediction.scenarios import ACKS, scenario

RESTART = {"fault": "restart", "target": 2}
LEADER = {"target": "leader of orders-0"}


def suffered(*steps: dict[str, Any], partition: int = 0, **changes: Any) -> WorstCase:
    asked = scenario(*steps, **changes)
    here = partition_of(asked, "orders", partition)
    timers = replace(here.configuration, replica_lag_time_max_s=30.0, session_timeout_s=9.0)
    return total(asked, replace(here, configuration=timers))


def kill(**fields: Any) -> dict[str, Any]:
    return {"fault": "kill", **LEADER, **fields}


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ([], Counts()),
        ([{"fault": "none"}], Counts()),
        ([kill(), kill()], Counts(kills=2)),
        ([kill(target="all")], Counts(kills=3)),
        ([kill(target="followers of orders-0")], Counts(kills=2)),
        ([kill(target="any 2 brokers")], Counts(kills=2)),
        ([{"fault": "crash_loop", **LEADER, "times": 4}], Counts(kills=4)),
        ([{"fault": "restart", "target": [1, 2]}], Counts(clean_stops=2)),
        ([{"fault": "power_loss", **LEADER}], Counts(power_losses=1)),
        ([{"fault": "power_loss", **LEADER, "partitions": "orders-1"}], Counts(kills=1)),
        ([{"fault": "kill_cluster"}], Counts(kills=3, fencings=math.inf)),
        ([{"fault": "pause", **LEADER, "heal_after": "1s"}], Counts()),
        ([{"fault": "pause", **LEADER, "heal_after": "9s"}], Counts(fencings=1)),
        ([{"fault": "pause", **LEADER}], Counts(fencings=1, shrinks=2)),
        ([{"fault": "isolate_replication", **LEADER, "heal_after": "2s"}], Counts()),
        ([{"fault": "isolate_replication", **LEADER}], Counts(shrinks=math.inf)),
        ([{"fault": "partition", **LEADER, "peers": "controllers"}], Counts(fencings=1)),
        ([{"fault": "flip_byte", **LEADER}], Counts()),
        ([{"fault": "preferred_election", "topic": "orders"}], Counts(leader_moves=1)),
        (
            [{"fault": "reassign", "topic": "orders", "to": [4, 5, 6]}],
            Counts(leader_moves=1, shrinks=1),
        ),
        ([{"fault": "add_partitions", "topic": "orders", "partitions": 9}], Counts()),
        ([{"sequence": [kill()], "repeat": 3}], Counts(kills=3)),
        ([{"sequence": [kill()], "every": "10s", "for": "25s"}], Counts(kills=3)),
        ([{"parallel": [kill(), RESTART]}], Counts(kills=1, clean_stops=1)),
        ([{"one_of": [kill(), RESTART]}], Counts(kills=1, clean_stops=1)),
        ([{"random": [kill()], "for": "10s"}], Counts(kills=5)),
    ],
)  # fmt: skip
def test_the_counts_are_the_most_that_the_schedule_can_do(
    steps: list[dict[str, Any]], counts: Counts
) -> None:
    assert suffered(*steps).counts == counts


def test_power_loss_with_fsync_before_each_ack_is_a_kill() -> None:
    topics = {"orders": {"partitions": 2, "settings": {"flush.messages": 1}}}
    found = suffered({"fault": "power_loss", **LEADER}, topics=topics)
    assert found.counts == Counts(kills=1)


def test_an_endless_loop_may_turn_any_number_of_times() -> None:
    loop = {"sequence": [kill()], "until": "leader of orders-0 changed"}
    assert suffered(loop).counts == Counts(kills=math.inf)


def test_a_broker_without_a_replica_of_the_partition_is_not_counted() -> None:
    topics = {"orders": {"assignment": [[1, 2], [2, 3], [3, 1]]}}
    for partition, hit in ((0, 1), (1, 0), (2, 1)):
        found = suffered(kill(target=1), partition=partition, topics=topics)
        assert found.counts == Counts(kills=hit)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"fault": "alter_config", "key": "min.insync.replicas", "value": 1}, {"lowered": 1}),
        (
            {"fault": "alter_config", "key": "unclean.leader.election.enable", "value": True},
            {"unclean_set": True},
        ),
        (
            {"fault": "alter_config", "key": "cleanup.policy", "value": "compact"},
            {"rewritten": True},
        ),
        ({"fault": "alter_config", "key": "cleanup.policy", "value": "delete"}, {}),
        ({"fault": "alter_config", "key": "retention.ms", "value": 1000}, {"rewritten": True}),
        ({"fault": "alter_config", "key": "retention.ms", "value": 10**9}, {}),
        ({"fault": "alter_config", "key": "max.message.bytes", "value": 9}, {}),
        ({"fault": "unclean_election"}, {"unclean": True}),
        ({"fault": "recreate_topic"}, {"removed": True}),
        ({"fault": "recreate_topic", "when": "5 acked"}, {"removed": True, "emptied": True}),
        ({"fault": "reassign", "to": [1, 2, 3]}, {"moves": 1}),
        ({"fault": "reassign", "to": [1, 2, 3], "partition": 1}, {"moves": 0}),
    ],
)  # fmt: skip
def test_operations_change_the_worst_case(step: dict[str, Any], says: dict[str, Any]) -> None:
    found = suffered({"topic": "orders", **step})
    for field, value in says.items():
        assert getattr(found, field) == value
    assert says or found == NOTHING


@pytest.mark.parametrize(("to", "moves"), [([3, 1], 0), ([1, 2], 1), ([3, 1, 2], 1)])
def test_replicas_in_another_order_do_not_move(to: list[int], moves: int) -> None:
    reassign = {"fault": "reassign", "topic": "orders", "to": to}
    found = suffered(reassign, partition=1, topics={"orders": {"assignment": [[1, 2], [1, 3]]}})
    assert found.moves == moves
    assert found.counts == Counts(leader_moves=moves, shrinks=moves)


@pytest.mark.parametrize("moved_first", [True, False])
def test_replicas_that_move_may_be_on_every_broker_that_a_fault_hits(moved_first: bool) -> None:
    reassign = {"fault": "reassign", "topic": "orders", "to": [4, 5, 6]}
    back = {**reassign, "to": [1, 2, 3]}
    lost = {"fault": "power_loss", "target": [4, 5]}
    steps = [reassign, lost] if moved_first else [lost, reassign]
    topics = {"orders": {"assignment": [[1, 2, 3]]}}
    assert suffered(*steps, topics=topics).counts.power_losses == 2
    assert suffered(lost, back, topics=topics).counts == Counts()
    assert suffered(reassign, back, topics=topics).moves == 2


def cut(heal_after: str, **fields: Any) -> dict[str, Any]:
    return {"fault": "isolate_replication", **LEADER, "heal_after": heal_after, **fields}


@pytest.mark.parametrize(
    ("steps", "shrinks"),
    [
        ([cut("20s")], False),
        ([cut("20s"), cut("20s", when="after 15s")], True),
        ([{"parallel": [cut("20s"), kill()]}], False),
        ([{"parallel": [cut("20s"), {"fault": "pause", "target": 2, "heal_after": "9s"}]}], True),
        ([{"one_of": [cut("20s"), cut("10s")]}], False),
        ([{"sequence": [cut("5s")], "repeat": 9}], True),
    ],
)
def test_faults_that_overlap_or_follow_may_last_long_enough_together(
    steps: list[dict[str, Any]], shrinks: bool
) -> None:
    assert bool(suffered(*steps).counts.shrinks) is shrinks


def test_a_partition_that_is_added_may_be_on_any_broker() -> None:
    topics = {"orders": {"assignment": [[1, 2]]}}
    added = {"fault": "add_partitions", "topic": "orders", "partitions": 2}
    steps = (added, kill(target=3))
    assert suffered(*steps, topics=topics).counts == Counts()
    assert suffered(*steps, partition=1, topics=topics).counts == Counts(kills=1)


def test_a_deletion_that_is_drawn_or_may_never_begin_is_not_certain() -> None:
    recreate = {"fault": "recreate_topic", "topic": "orders", "when": "5 acked"}
    drawn = {"one_of": [recreate, {"fault": "none"}]}
    acked = kill(when="3 acked")
    assert suffered(recreate).emptied
    assert suffered(acked, recreate).emptied
    assert suffered(drawn).removed
    never = "isr of orders-0 == 1"
    for steps in (
        [acked, drawn],
        [acked, {"sequence": [recreate], "probability": 0.5}],
        [{**recreate, "or_after": "5s"}],
        [{**recreate, "when": ["5 acked", never]}],
        [kill(when=never), recreate],
    ):
        assert not suffered(*steps).emptied


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"direction": "response", "action": "drop"}, {"unanswered"}),
        (
            {"direction": "response", "action": "error", "error": "NOT_LEADER_OR_FOLLOWER"},
            {"unanswered"},
        ),
        (
            {"direction": "response", "action": "error", "error": "INVALID_RECORD"},
            {"unanswered", "denied"},
        ),
        ({"direction": "request", "action": "error", "error": "INVALID_RECORD"}, {"unanswered"}),
        ({"direction": "request", "action": "hold"}, {"unanswered", "late"}),
        ({"direction": "request", "action": "duplicate"}, {"repeated"}),
        ({"direction": "response", "action": "duplicate"}, set()),
        ({"api": "Metadata", "direction": "request", "action": "drop"}, set()),
        ({"api": "ShareFetch", "direction": "request", "action": "drop"}, set()),
        ({"api": "Fetch", "direction": "request", "action": "hold"}, {"unanswered", "late"}),
        ({"api": "Fetch", "direction": "request", "action": "drop"}, {"unanswered"}),
    ],
)
def test_intercepted_requests_may_be_sent_again(fields: dict[str, Any], says: set[str]) -> None:
    cluster = {"listeners": ["LINK"], "proxied": ["LINK", "INTERNAL"]}
    step = {"fault": "link", "target": "all", "api": "Produce", **fields}
    found = suffered(step, cluster=cluster)
    flags = ("unanswered", "late", "repeated", "denied")
    assert {flag for flag in flags if getattr(found, flag)} == says


@pytest.mark.parametrize(("fault", "renewed"), [("wipe_volume", True), ("wipe_partition", False)])
def test_a_wiped_disk_has_a_new_directory_and_moves_no_replica(fault: str, renewed: bool) -> None:
    found = suffered({"fault": fault, "target": 1})
    assert found == WorstCase(counts=Counts(power_losses=1), renewed=renewed)


@pytest.mark.parametrize(
    ("fault", "anything"),
    [
        ({"fault": "power_loss"}, False),
        ({"fault": "lying_disk", "last": 9}, True),
        ({"fault": "wipe_volume"}, True),
    ],
)
def test_only_controllers_that_lose_fsynced_metadata_may_do_anything(
    fault: dict[str, Any], anything: bool
) -> None:
    found = suffered({**fault, "target": "active controller"})
    assert bool(found.anything) == anything
    assert found.counts.fencings == (0 if anything else math.inf)


@pytest.mark.parametrize(
    ("step", "resends"),
    [
        ({"fault": "kill"}, True),
        ({"fault": "restart"}, True),
        ({"fault": "partition", "peers": "controllers"}, True),
        ({"fault": "partition", "peers": "controllers", "heal_after": "1s"}, False),
        ({"fault": "flip_byte"}, False),
    ],
)
def test_a_broker_that_ends_or_is_deposed_leaves_requests_to_be_sent_again(
    step: dict[str, Any], resends: bool
) -> None:
    assert suffered(LEADER | step).resends is resends
    assert suffered(LEADER | step).late is False


def test_a_cut_from_the_controllers_may_cause_the_same_alone_and_in_a_random_block() -> None:
    cut = {"fault": "partition", "peers": "controllers", **LEADER}
    block = {"random": [cut], "for": "60s", "lasting": ["1s", "20s"]}
    records = [predict(scenario(one, arm=1), max_states=1) for one in (cut, block)]
    assert [record.predicted["reordered"] for record in records] == ["possible"] * 2


def test_a_rack_is_its_brokers() -> None:
    cluster = {"brokers": 5, "racks": ["a", "b", "c"]}
    assert suffered({"fault": "kill", "target": "rack a"}, cluster=cluster) == suffered(
        {"fault": "kill", "target": [1, 4]}, cluster=cluster
    )


def test_upgrades_add_versions_and_feature_levels_to_the_worst_case() -> None:
    upgrade = {"fault": "upgrade", "target": "all", "to": "4.3.1"}
    elr = {"fault": "upgrade_feature", "feature": "eligible.leader.replicas.version", "level": 1}
    found = suffered(upgrade, elr, kafka="4.0.1")
    assert found.versions == ("4.3.1",)
    assert found.elr == (True,)
    assert found.counts == Counts(clean_stops=3)


QUEUE = {"fault": "purge_client", "client": "producer 0", "what": "queue"}
KILL = {"fault": "kill", **LEADER}
CAN, EITHER = ("can", "can"), ("either", "either")


def parts(
    *steps: dict[str, Any], max_states: int = 200, **changes: Any
) -> dict[str, tuple[str, str]]:
    record = predict(scenario(*steps, **changes), max_states=max_states)
    return {one.part: (one.readable, one.writable) for one in record.prediction.availability}


def test_untouched_partition_can_be_read_and_written() -> None:
    assert parts(QUEUE, KILL) == {
        "before the first fault": CAN,
        "after fault 1 (purge_client) begins": CAN,
        "after fault 2 (kill) begins": EITHER,
        "at the end": EITHER,
    }


def test_blocks_have_one_part_from_their_first_fault_on() -> None:
    loop = {"sequence": [KILL], "every": "10s"}
    assert parts(loop) == {"before the first fault": CAN, "from the first fault on": EITHER}
    loop = {"sequence": [QUEUE], "every": "10s"}
    assert set(parts(loop).values()) == {CAN}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"fault": "add_partitions", "topic": "orders", "partitions": 9}, CAN),
        (
            {"fault": "alter_config", "topic": "orders", "key": "retention.ms", "value": 9},
            ("can", "either"),
        ),
        ({"fault": "flip_byte", "target": 1}, EITHER),
        ({"fault": "recreate_topic", "topic": "orders"}, EITHER),
        ({"fault": "reset_connections", "target": 1}, EITHER),
        ({"fault": "bandwidth", "target": 1, "rate": "1mbit"}, EITHER),
    ],
)
def test_a_fault_that_touches_the_partition_may_take_either(
    step: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert parts(step)["at the end"] == expected


def test_availability_of_an_incomplete_search_is_that_of_the_worst_case() -> None:
    assert parts(KILL, KILL, KILL)["after fault 1 (kill) begins"] == EITHER


def test_one_partition_without_a_search_decides_for_all() -> None:
    killed = {"fault": "kill", "target": [1, 2], "heal_after": "20s"}
    searched: dict[str, Any] = {"assignment": [[1, 2, 3], [4, 5, 6]]}
    several = {"partitions": 2, "replication_factor": 3}  # nobody knows which replicas they are
    for topic, expected in ((searched, CAN), (several, EITHER)):
        found = parts(killed, cluster={"brokers": 6}, topics={"orders": topic}, max_states=9000)
        assert found["at the end"] == expected


@pytest.mark.parametrize(("kafka", "expected"), [("4.3.1", CAN), ("3.6.2", ("can", "either"))])
def test_a_minimum_isr_above_the_replicas_is_capped_from_3_7(
    kafka: str, expected: tuple[str, str]
) -> None:
    orders = {"replication_factor": 3, "settings": {"min.insync.replicas": 4}}
    one = ACKS[1].scenario.workload.model_dump(by_alias=True)
    flip = {"fault": "flip_byte", "target": 1}
    found = parts(flip, kafka=kafka, topics={"orders": orders}, workload=one)
    assert found["before the first fault"] == expected
