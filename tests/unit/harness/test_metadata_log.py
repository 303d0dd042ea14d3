from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.harness.metadata_log import parse

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


def test_an_elr_is_read_where_there_is_one() -> None:
    dump = DUMP + (
        "\nbaseOffset: 200 lastOffset: 200 count: 1 CreateTime: 1795255900000 size: 1\n"
        '| payload: {"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,'
        '"topicId":"DpyuZLHsRISdLdZHEtpW7Q","isr":[],"leader":-1,"eligibleLeaderReplicas":[2]}}\n'
    )
    state = parse(dump).partitions[-1]
    assert (state.leader, state.isr, state.elr) == (-1, (), (2,))


def test_a_change_of_an_unknown_partition_is_an_error() -> None:
    change = next(line for line in DUMP.splitlines() if "PARTITION_CHANGE" in line)
    with pytest.raises(ValueError, match="nobody created"):
        parse(f"baseOffset: 0 lastOffset: 0 count: 1 CreateTime: 1 size: 1\n{change}\n")
