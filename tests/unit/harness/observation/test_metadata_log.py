from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ackproof.observation.metadata_log import (
    BrokerState,
    MetadataLog,
    PartitionState,
    last_offset,
    parse,
)

# Taken from a real controller (Kafka 4.3.1): leader 1 is killed, fenced, and comes back.
DUMP = (Path(__file__).parent / "metadata_4.3.1.txt").read_text()


def test_a_partition_is_followed_through_failover_and_return() -> None:
    states = [s for s in parse(DUMP).partitions if s.partition == 0]
    assert [(s.leader, s.leader_epoch, s.partition_epoch, s.isr) for s in states] == [
        (1, 0, 0, (1, 2, 3)),
        (2, 1, 1, (2, 3)),
        (2, 1, 2, (1, 2, 3)),
    ]
    assert {(s.topic, s.replicas) for s in states} == {("orders", (1, 2, 3))}
    assert [s.at for s in states] == sorted(s.at for s in states)
    assert [s.metadata_offset for s in states] == [28, 54, 67]


def test_an_isr_change_alone_does_not_raise_the_leader_epoch() -> None:
    # KIP-841 and MetadataVersion 3.6: only a record that names a leader does.
    states = [s for s in parse(DUMP).partitions if s.partition == 1]
    assert [s.leader_epoch for s in states] == [0, 0, 0]
    assert [len(s.isr) for s in states] == [3, 2, 3]


def test_a_broker_is_followed_through_fencing() -> None:
    states = [s.state for s in parse(DUMP).brokers if s.broker == 1]
    assert states == ["registered", "unfenced", "fenced", "registered", "unfenced"]


def test_an_elr_is_read_if_there_is_one() -> None:
    dump = DUMP + (
        "\nbaseOffset: 200 lastOffset: 200 count: 1 CreateTime: 1795255900000 size: 1\n"
        '| payload: {"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,'
        '"topicId":"DpyuZLHsRISdLdZHEtpW7Q","isr":[],"leader":-1,"eligibleLeaderReplicas":[2]}}\n'
    )
    state = parse(dump).partitions[-1]
    assert (state.leader, state.isr, state.elr) == (-1, (), (2,))


def test_a_change_of_an_unknown_partition_is_an_error() -> None:
    change = next(line for line in DUMP.splitlines() if "PARTITION_CHANGE" in line)
    with pytest.raises(ValueError, match="changes an unknown partition"):
        parse(f"baseOffset: 0 lastOffset: 0 count: 1 CreateTime: 1 size: 1\n{change}\n")


PARTITION = '{"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"T",'
TOPIC = '| payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"T"}}\n'
CHANGE = '{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,"topicId":"T",'
EMPTIED = (
    TOPIC
    + f'| payload: {PARTITION}"replicas":[1,2],"isr":[],"leader":-1,"leaderEpoch":4,'
    + '"partitionEpoch":9,"eligibleLeaderReplicas":[2],"lastKnownElr":[1]}}\n'
)


def batch(offset: int, milliseconds: int) -> str:
    return (
        f"baseOffset: {offset} lastOffset: {offset} count: 1 CreateTime: {milliseconds} size: 1\n"
    )


def test_the_last_known_leader_is_read_and_kept_until_it_is_cleared() -> None:
    kept = f'| payload: {CHANGE}"isr":[2]}}}}\n'
    cleared = f'| payload: {CHANGE}"lastKnownElr":[]}}}}\n'
    dump = batch(1, 1) + EMPTIED + batch(3, 2) + kept + batch(4, 3) + cleared
    assert [s.last_known_elr for s in parse(dump).partitions] == [(1,), (1,), ()]


@pytest.mark.parametrize(("topic", "hit"), [("", True), ("orders", True), ("other", False)])
def test_clearing_elrs_is_a_change_of_each_partition_that_has_one(topic: str, hit: bool) -> None:
    clear = (
        f'| payload: {{"type":"CLEAR_ELR_RECORD","version":0,"data":{{"topicName":"{topic}"}}}}\n'
    )
    states = parse(batch(1, 1) + EMPTIED + batch(3, 2) + clear + batch(4, 3) + clear).partitions
    assert [(s.elr, s.last_known_elr, s.partition_epoch) for s in states] == (
        [((2,), (1,), 9), ((), (), 10)] if hit else [((2,), (1,), 9)]
    )


def test_a_snapshot_replaces_the_deleted_part_of_the_log() -> None:
    registered = (
        '| payload: {"type":"REGISTER_BROKER_RECORD","version":4,"data":'
        '{"brokerId":1,"brokerEpoch":13,"fenced":false}}\n'
    )
    stale = f'| payload: {CHANGE}"isr":[1]}}}}\n'
    fresh = f'| payload: {CHANGE}"isr":[1,2],"leader":1}}}}\n'
    log = parse(
        "Dumping 00000000000000000050-0000000002.checkpoint\nSnapshot end offset: 50, epoch: 2\n"
        + (batch(0, 1) + registered + EMPTIED)
        + "Dumping 00000000000000000040.log\nLog starting offset: 40\n"
        + (batch(49, 2) + stale + batch(50, 3) + fresh)
    )
    assert [(s.metadata_offset, s.partition_epoch, s.isr) for s in log.partitions] == [
        (49, 9, ()),
        (50, 10, (1, 2)),
    ]
    assert [b.state for b in log.brokers] == ["registered", "unfenced"]


def test_a_broker_may_be_unregistered() -> None:
    record = '{"type":"UNREGISTER_BROKER_RECORD","version":0,"data":{"brokerId":3,"brokerEpoch":5}}'
    log = parse(batch(7, 1) + f"| payload: {record}\n")
    assert [(b.broker, b.state, b.metadata_offset) for b in log.brokers] == [(3, "unregistered", 7)]


def test_the_last_offset_is_that_of_the_last_record() -> None:
    assert last_offset(batch(7, 1) + EMPTIED) == 8
    assert last_offset("") == -1


@pytest.mark.parametrize(
    "before",
    [
        "\n",  # as DumpLogSegments of 3.9.1 prints when it is told to skip the records' metadata
        "\n| offset: 5 CreateTime: 1 keySize: -1 valueSize: 9 sequence: -1 headerKeys: []",
    ],
    ids=["no leading bar", "metadata of the record"],
)
def test_what_stands_before_a_payload_is_skipped(before: str) -> None:
    assert "\n| payload: " in DUMP
    assert parse(DUMP.replace("\n| payload: ", f"{before} payload: ")) == parse(DUMP)


BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def partition(seconds: int) -> PartitionState:
    return PartitionState(
        at=BEGAN + timedelta(seconds=seconds),
        metadata_offset=0,
        topic="orders",
        partition=0,
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1,),
        isr=(1,),
        elr=(),
    )


def broker(number: int, seconds: int, state: str) -> BrokerState:
    return BrokerState(
        at=BEGAN + timedelta(seconds=seconds),
        metadata_offset=0,
        broker=number,
        state=state,
        broker_epoch=0,
    )


def test_since_leaves_out_a_topic_of_the_same_name_that_was_being_deleted() -> None:
    offline = replace(partition(1), leader_epoch=7, partition_epoch=9, isr=())
    created, later = partition(2), replace(partition(3), leader_epoch=1, partition_epoch=1)
    log = MetadataLog(partitions=(offline, created, later), brokers=())
    assert log.since(BEGAN).partitions == (created, later)


def test_since_has_both_topics_if_the_run_created_its_own_again() -> None:
    elected = replace(partition(3), leader_epoch=1, partition_epoch=1)
    log = MetadataLog(partitions=(partition(2), elected, partition(4)), brokers=())
    assert len(log.since(BEGAN).partitions) == 3


def test_since_keeps_each_brokers_last_earlier_state() -> None:
    log = MetadataLog(
        partitions=(partition(-5), partition(3)),
        brokers=(
            broker(1, -9, "registered"),
            broker(1, -8, "unfenced"),
            broker(2, -9, "unfenced"),
            broker(2, 4, "fenced"),
        ),
    )
    cut = log.since(BEGAN)
    assert cut.partitions == (partition(3),)
    assert [(state.broker, state.state) for state in cut.brokers] == [
        (1, "unfenced"),
        (2, "unfenced"),
        (2, "fenced"),
    ]


def test_the_own_settings_of_a_topic_end_with_their_deletion_or_the_topics() -> None:
    def config(kind: int, name: str, value: str | None) -> str:
        data = {"resourceType": kind, "resourceName": name, "name": "min.insync.replicas"}
        record = {"type": "CONFIG_RECORD", "data": {**data, "value": value}}
        return f"| payload: {json.dumps(record)}\n"

    of_broker, of_topic = config(4, "orders", "3"), config(2, "orders", "2")
    known = batch(0, 1) + TOPIC + of_topic + of_broker
    assert parse(known).settings == {"orders": {"min.insync.replicas": "2"}}
    assert parse(known + config(2, "orders", None)).settings == {"orders": {}}
    removed = '| payload: {"type":"REMOVE_TOPIC_RECORD","data":{"topicId":"T"}}\n'
    assert parse(known + removed).settings == {}
