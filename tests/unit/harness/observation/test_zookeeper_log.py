from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ackproof.observation.metadata_log import MetadataLog
from ackproof.observation.zookeeper_log import states, writes
from support.zookeeper_files import (
    CLOSE_SESSION,
    CREATED,
    HEADER,
    MULTI,
    STATE,
    TOPIC,
    changed,
    create,
    deleted,
    leads,
    transaction,
)

# Taken from real clusters: broker 2 leads orders-0, is killed, deregistered, and comes back.
LOGS = {
    version: (Path(__file__).parent / f"zookeeper_{version}.log").read_bytes()
    for version in ("0.10.2.2", "2.6.2")
}


def read(*transactions: bytes) -> MetadataLog:
    return states([HEADER + b"".join(transactions)])


@pytest.mark.parametrize(
    ("version", "story"),
    [
        ("2.6.2", [(2, 0, 0, (2, 3, 1)), (3, 1, 1, (3, 1)), (3, 1, 2, (3, 1, 2))]),
        ("0.10.2.2", [(2, 0, 0, (2, 1, 3)), (1, 1, 1, (1, 3)), (1, 1, 2, (1, 3, 2))]),
    ],
)
def test_a_partition_is_followed_through_failover_and_return(
    version: str, story: list[tuple[int, int, int, tuple[int, ...]]]
) -> None:
    followed = [
        s for s in states([LOGS[version]]).partitions if (s.topic, s.partition) == ("orders", 0)
    ]
    assert [(s.leader, s.leader_epoch, s.partition_epoch, s.isr) for s in followed] == story
    assert {s.replicas for s in followed} == {story[0][3]}
    assert [s.at for s in followed] == sorted(s.at for s in followed)
    assert len({s.at.microsecond for s in followed}) > 1, "times are finer than seconds"


@pytest.mark.parametrize("version", LOGS)
def test_a_broker_is_followed_through_the_end_of_its_session(version: str) -> None:
    followed = [b for b in states([LOGS[version]]).brokers if b.broker == 2]
    assert [b.state for b in followed] == [
        "registered",
        "unfenced",
        "fenced",
        "registered",
        "unfenced",
    ]
    assert followed[0].broker_epoch == followed[2].broker_epoch < followed[3].broker_epoch


def test_an_ephemeral_znode_is_deleted_with_its_own_session_only() -> None:
    broker = "/brokers/ids/1"
    log = read(
        transaction(1, *create(broker, {}, ephemeral=True), session=7),
        transaction(2, *deleted(broker), session=7),
        transaction(3, *create(broker, {}, ephemeral=True), session=8),
        transaction(4, CLOSE_SESSION, b"", session=7),
    )
    assert [b.state for b in log.brokers].count("fenced") == 1
    assert log.brokers[-1].state == "unfenced"


def test_writes_of_one_multi_are_all_read() -> None:
    kind, body = changed(STATE, leads(2, 1, [2]), 1)
    multi = struct.pack(">ii", 1, kind) + struct.pack(">i", len(body)) + body
    log = read(TOPIC, CREATED, transaction(3, MULTI, multi))
    assert [s.leader for s in log.partitions] == [1, 2]


def test_a_reassignment_is_a_separate_state() -> None:
    moved = transaction(3, *changed("/brokers/topics/t", {"partitions": {"0": [3, 2]}}, 1))
    log = read(TOPIC, CREATED, moved)
    assert [s.replicas for s in log.partitions] == [(1, 2), (3, 2)]
    assert log.partitions[1].partition_epoch == 0


def test_a_recreated_topic_has_fresh_states() -> None:
    again = transaction(5, *create(STATE, leads(2, 0, [2])))
    log = read(TOPIC, CREATED, transaction(3, *deleted(STATE)), again)
    assert [(s.leader, s.partition_epoch) for s in log.partitions] == [(1, 0), (2, 0)]


def test_logs_of_several_nodes_complete_each_other() -> None:
    third = transaction(3, *changed(STATE, leads(2, 1, [2]), 1))
    fourth = transaction(4, *changed(STATE, leads(2, 1, [1, 2]), 2))
    whole = read(TOPIC, CREATED, third, fourth)
    gap = HEADER + TOPIC + CREATED + fourth
    assert states([gap, HEADER + TOPIC + CREATED + third]) == whole
    assert states([gap]) != whole


def test_an_incomplete_record_at_the_end_is_ignored() -> None:
    third = transaction(3, *changed(STATE, leads(2, 1, [2]), 1))
    assert len(read(TOPIC, CREATED, third[:-1]).partitions) == 1
    assert len(read(TOPIC, CREATED, third[:-20]).partitions) == 1
    assert len(read(TOPIC, CREATED, third, bytes(64)).partitions) == 2


def test_damage_is_an_error() -> None:
    broken = bytearray(LOGS["2.6.2"])
    broken[60] ^= 1
    with pytest.raises(ValueError, match="damaged at byte 16"):
        list(writes(bytes(broken)))
    with pytest.raises(ValueError, match="not a ZooKeeper transaction log"):
        list(writes(b"ABCD" + HEADER))
