"""Full ISR in the committed state and in the metadata of every broker, and states of the quorum."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.readiness import await_full_isr, parse_replication
from ackproof.cluster.topology import KRaft, ZooKeeper
from ackproof.errors import ClusterError
from ackproof_faults.interfaces.cluster import TopicPartition

PARTITION = ("orders", 0)
Views = Mapping[TopicPartition, PartitionView]


def view(leader: int, *isr: int) -> Views:
    return {PARTITION: PartitionView(leader=leader, replicas=(1, 2), isr=isr)}


FULL, SMALLER, OLD_LEADER = view(1, 1, 2), view(1, 1), view(2, 1, 2)


class Brokers:
    """Three brokers; the third reports these views one after the other, then the last again."""

    def __init__(self, *reports: Views, zookeeper: bool = False) -> None:
        mode = ZooKeeper() if zookeeper else KRaft()
        self.topology = SimpleNamespace(metadata=mode)
        self.left = list(reports)

    def require_all_alive(self) -> None:
        pass

    def partitions(self) -> Views:
        return FULL

    def broker_ids(self) -> list[int]:
        return [1, 2, 3]

    def partitions_known_to(self, broker: int) -> Views:
        if broker < 3:
            return FULL
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def await_partition(brokers: Brokers, *, within_s: float = 30) -> None:
    await_full_isr(brokers, [PARTITION], within_s=within_s)


def test_the_wait_ends_when_the_last_broker_is_up_to_date() -> None:
    brokers = Brokers({}, OLD_LEADER, SMALLER, FULL)
    await_partition(brokers)
    assert brokers.left == [FULL]


@pytest.mark.parametrize("report", [{}, OLD_LEADER, SMALLER], ids=["nothing", "leader", "ISR"])
def test_the_error_names_an_outdated_broker(report: Views) -> None:
    with pytest.raises(ClusterError, match="the metadata of broker 3 is not up to date"):
        await_partition(Brokers(report), within_s=0.1)


def test_with_zookeeper_an_outdated_isr_is_accepted_and_an_outdated_leader_is_not() -> None:
    await_partition(Brokers(SMALLER, zookeeper=True), within_s=0.1)
    with pytest.raises(ClusterError):
        await_partition(Brokers(OLD_LEADER, zookeeper=True), within_s=0.1)


# Output of kafka-metadata-quorum 4.3.1, without padding.
REPLICATION = """\
NodeId\tDirectoryId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\t
100\tAAAAAAAAAAAAAAAAAAAAAA\t301\t0\t1795268087860\t1795268087860\tLeader\t
101\tAAAAAAAAAAAAAAAAAAAAAA\t301\t0\t1795268087700\t1795268087700\tFollower\t
102\tAAAAAAAAAAAAAAAAAAAAAA\t250\t51\t1795268080000\t1795268080000\tFollower\t
1\tqnsCHFxCQ2abrxbeQn_C7w\t301\t0\t1795268087700\t1795268087700\tObserver\t
"""


def test_parse_distinguishes_voters_observers_and_lagging_replicas() -> None:
    assert parse_replication(REPLICATION) == {
        100: "leader",
        101: "follower",
        102: "lagging",
        1: "observer",
    }


def test_empty_output_has_no_replicas() -> None:
    assert parse_replication("") == {}
