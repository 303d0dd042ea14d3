"""Polled changes of partitions."""

from __future__ import annotations

import pytest

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.attached import UNKNOWN, LeaderPoll, agreed
from ackproof_faults.interfaces.cluster import TopicPartition

PARTITION = ("orders", 0)
FULL = PartitionView(leader=1, replicas=(1, 2), isr=(1, 2))
ALONE = PartitionView(leader=1, replicas=(1, 2), isr=(1,))
LEADERLESS = PartitionView(leader=None, replicas=(1, 2), isr=(1,))


def test_only_changes_of_the_given_partitions_are_recorded() -> None:
    answers = iter(
        [
            {PARTITION: FULL, ("other", 0): FULL},
            {PARTITION: FULL},
            {},
            {PARTITION: ALONE},
            {PARTITION: LEADERLESS},
        ]
    )
    poll = LeaderPoll(lambda: next(answers), [PARTITION])
    for _ in range(5):
        poll.turn()
    assert [(s.topic, s.leader, s.isr) for s in poll.states] == [
        ("orders", 1, (1, 2)),
        ("orders", 1, (1,)),
        ("orders", UNKNOWN, (1,)),
    ]
    assert {s.metadata_offset for s in poll.states} == {UNKNOWN}


def test_an_entered_poll_runs_in_the_background() -> None:
    with LeaderPoll(lambda: {PARTITION: FULL}, [PARTITION]) as poll:
        pass
    assert len(poll.states) == 1


@pytest.mark.parametrize(
    ("others", "known"),
    [
        ([], True),
        ([{PARTITION: PartitionView(leader=1, replicas=(1, 2), isr=(2, 1))}], True),
        ([{}], True),  # it does not answer
        ([{PARTITION: PartitionView(leader=2, replicas=(1, 2), isr=(1, 2))}], False),
        ([{PARTITION: PartitionView(leader=1, replicas=(1, 2), isr=(1,))}], False),
        ([{("others", 0): PartitionView(leader=1, replicas=(1,), isr=(1,))}], False),
    ],
)
def test_a_partition_is_known_once_the_living_brokers_agree(
    others: list[dict[TopicPartition, PartitionView]], known: bool
) -> None:
    assert agreed([{PARTITION: FULL}, *others]) == ({PARTITION: FULL} if known else {})
