from __future__ import annotations

import pytest

from ackproof_faults.conditions.targets import SharePartition, parse_target
from support.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("written", "nodes"),
    [
        ("leader of orders-0", (1,)),
        ("followers of orders-0", (2, 3)),
        ("all", (1, 2, 3)),
        (2, (2,)),
        ([1, 3], (1, 3)),
        ("share leader of orders-0", (1,)),
        ("share coordinator of workers on orders-0", (3,)),
    ],
)
def test_a_target_names_brokers(written: object, nodes: tuple[int, ...]) -> None:
    assert parse_target(written).resolve(FakeCluster()) == nodes


def test_a_role_follows_leadership() -> None:
    target = parse_target("leader of orders-0")
    assert target.resolve(FakeCluster(now_leader=3)) == (3,)
    assert target.resolve(FakeCluster(now_leader=None)) == ()
    followers = parse_target("followers of orders-0")
    assert followers.resolve(FakeCluster(now_leader=None)) == (), (
        "one of the replicas may become leader"
    )


def test_topics_may_contain_dashes_and_dots() -> None:
    target = parse_target("leader of eu.orders-v2-11")
    assert (target.topic, target.partition) == ("eu.orders-v2", 11)


@pytest.mark.parametrize("written", ["leader of orders", "", [], ["1"], True, 1.5, None])
def test_a_wrong_target_is_refused_with_the_value_and_the_legal_forms(written: object) -> None:
    with pytest.raises(ValueError, match="leader of TOPIC-N") as refusal:
        parse_target(written)
    assert repr(written) in str(refusal.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("leeder of orders-0", "leader of orders-0"),
        ("actve controller", "active controller"),
        ("eny broker", "any broker"),
    ],
)
def test_error_for_a_misspelt_target_suggests_the_correct_target(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        parse_target(written)


def test_a_share_coordinator_may_be_unknown_and_is_no_role_of_the_partition() -> None:
    target = parse_target("share coordinator of work-ers.1 on eu.orders-1-0")
    assert target.resolve(FakeCluster(now_coordinator=None)) == ()
    assert (target.topic, target.shared) == (
        "",
        SharePartition(group="work-ers.1", topic="eu.orders-1", partition=0),
    )


def test_the_leader_of_a_share_partition_is_the_partitions() -> None:
    assert parse_target("share leader of orders-0") == parse_target("leader of orders-0")
    with pytest.raises(ValueError, match="is not a target"):
        parse_target("share followers of orders-0")


@pytest.mark.parametrize(
    "written",
    [
        "leader of orders-0",
        "followers of orders-0",
        "all",
        "share coordinator of workers on orders-0",
    ],
)
def test_target_round_trips(written: str) -> None:
    assert str(parse_target(written)) == written
