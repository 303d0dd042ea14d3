"""What polling sees, and how what a cluster recorded is cut where a run begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ackproof.cluster.admin import PartitionView
from ackproof.observation.leader_polling import UNKNOWN, LeaderPoll
from ackproof.observation.metadata_log import BrokerState, MetadataLog, PartitionState

PLACE = ("orders", 0)
FULL = PartitionView(leader=1, replicas=(1, 2), isr=(1, 2))
ALONE = PartitionView(leader=1, replicas=(1, 2), isr=(1,))
NOBODY = PartitionView(leader=None, replicas=(1, 2), isr=(1,))


def test_only_changes_of_the_given_partitions_are_recorded() -> None:
    answers = iter(
        [{PLACE: FULL, ("other", 0): FULL}, {PLACE: FULL}, {}, {PLACE: ALONE}, {PLACE: NOBODY}]
    )
    poll = LeaderPoll(lambda: next(answers), [PLACE])
    for _ in range(5):
        poll.turn()
    assert [(s.topic, s.leader, s.isr) for s in poll.states] == [
        ("orders", 1, (1, 2)),
        ("orders", 1, (1,)),
        ("orders", UNKNOWN, (1,)),
    ]
    assert {s.metadata_offset for s in poll.states} == {UNKNOWN}


def test_an_entered_poll_runs_in_the_background() -> None:
    with LeaderPoll(lambda: {PLACE: FULL}, [PLACE]) as poll:
        pass
    assert len(poll.states) == 1


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
    assert [(one.broker, one.state) for one in cut.brokers] == [
        (1, "unfenced"),
        (2, "unfenced"),
        (2, "fenced"),
    ]
