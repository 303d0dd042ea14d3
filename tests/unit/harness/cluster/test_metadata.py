"""The sources of the metadata of a booted cluster."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.interfaces import ClusterMetadata
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.topology import KRaft, ZooKeeper
from ackproof.errors import ClusterError
from ackproof.observation import controllers_log
from ackproof_faults.conditions.observation import Observation, SendCounts
from ackproof_faults.conditions.trigger import parse_condition

ALL = (1, 2, 3)
#: One partition, as brokers report it and in the controllers' log.
REPORTED = {("orders", 0): PartitionView(leader=1, replicas=ALL, isr=ALL)}
LOGGED = {("orders", 0): SimpleNamespace(leader=-1, replicas=ALL, isr=())}


class Cluster(ClusterNodes):
    """Brokers or ZooKeeper that answer with these views; controllers with dumps of their logs."""

    def __init__(
        self,
        *dumps: str | ClusterError,
        views: Any = (),
        running: Sequence[int] = (),
        zookeeper: bool = False,
    ) -> None:
        self.admin: Any = None
        mode = ZooKeeper() if zookeeper else KRaft()
        self.topology: Any = SimpleNamespace(metadata=mode)
        self.nodes: Any = dict(enumerate(dumps))
        self._running_ids = list(running)
        self.dumped: list[str] = []
        self.requests = 0
        self._views = views or {}

    def running_brokers(self) -> list[int]:
        return self._running_ids

    def running_controllers(self) -> list[int]:
        return list(self.nodes)

    def partitions(self) -> Any:
        self.requests += 1
        return self._views

    def dump(self, node: Any) -> str:
        self.dumped.append(node)
        if isinstance(node, ClusterError):
            raise node
        return str(node)


@pytest.mark.parametrize(
    ("running", "zookeeper", "asked"), [([1], False, True), ([], False, False), ([], True, True)]
)
def test_brokers_get_a_request_only_if_they_or_zookeeper_can_answer(
    running: list[int], zookeeper: bool, asked: bool
) -> None:
    cluster: Any = Cluster(views=REPORTED, running=running, zookeeper=zookeeper)
    cluster.controllers_log = SimpleNamespace(partitions=lambda: LOGGED)
    metadata = ClusterMetadata(cluster)
    assert metadata.leader("orders", 0) == (1 if asked else None)
    assert cluster.requests == asked


def test_the_leaders_of_many_partitions_take_one_request() -> None:
    leaderless = {("orders", 1): PartitionView(leader=None, replicas=ALL, isr=())}
    cluster: Any = Cluster(views=REPORTED | leaderless, running=[1])
    leaders = ClusterMetadata(cluster).leaders([("orders", 0), ("orders", 1), ("absent", 0)])
    assert leaders == {("orders", 0): 1, ("orders", 1): None, ("absent", 0): None}
    assert cluster.requests == 1


#: As controllers write it; epochs, directories and what else does not matter here are left out.
DUMP = """\
baseOffset: 0 lastOffset: 2 count: 3 CreateTime: 1795255900000 size: 1
| payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"T"}}
| payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"T",\
"replicas":[1,2,3],"isr":[1],"leader":1,"leaderEpoch":0,"partitionEpoch":0}}
| payload: {"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,"topicId":"T",\
"leader":-1}}
"""


def metadata_of(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> ClusterMetadata:
    monkeypatch.setattr(controllers_log, "dump", cluster.dump)
    return ClusterMetadata(cluster)


def holds(metadata: ClusterMetadata, condition: str = "leader of orders-0 == none") -> bool:
    observation: Any = Observation(
        cluster=SimpleNamespace(metadata=metadata),
        history=None,
        sends=SendCounts(sent=0, acked=0),
        now_s=0,
        reference=None,
        windows=[],
    )
    return parse_condition(condition).holds(observation)


def test_with_every_broker_down_the_controllers_log_shows_that_there_is_no_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = metadata_of(monkeypatch, cluster := Cluster(DUMP))
    assert holds(metadata)
    assert not holds(metadata, "leader of orders-0 != none")
    assert not holds(metadata, "leader of orders-0 == 1")
    assert holds(metadata, "isr of orders-0 is {1}")
    assert len(cluster.dumped) == 1, "Kafka's tool takes long, so its answer is used again"


def test_with_every_broker_down_the_last_leader_of_the_controllers_log_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = metadata_of(monkeypatch, Cluster(DUMP[: DUMP.rindex("| payload")]))
    assert not holds(metadata)
    assert holds(metadata, "leader of orders-0 == 1")


def test_the_longest_log_of_several_controllers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    isolated = DUMP[: DUMP.rindex("| payload")].replace("lastOffset: 2", "lastOffset: 1")
    assert holds(metadata_of(monkeypatch, Cluster(isolated, DUMP, isolated)))


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(),
        Cluster(DUMP, zookeeper=True),
        Cluster(ClusterError("the tool failed")),
        Cluster(DUMP.replace('"topicId":"T"', '"topicId":', 1)),
        Cluster(DUMP.replace("orders", "others")),
    ],
    ids=["no controller", "zookeeper", "tool fails", "cut off", "another topic"],
)
def test_an_unknown_leader_satisfies_no_condition(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    metadata = metadata_of(monkeypatch, cluster)
    assert metadata.leader("orders", 0) is None
    assert not holds(metadata)
    assert not holds(metadata, "leader of orders-0 != none")


def test_an_answer_between_two_questions_does_not_make_an_unknown_leader_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first question is not answered, the second one is: by a broker that leads."""
    answers = iter([{}, REPORTED, REPORTED])
    cluster = Cluster(running=[1])
    monkeypatch.setattr(cluster, "partitions", lambda: next(answers))
    assert not holds(metadata_of(monkeypatch, cluster))


def test_what_was_decided_is_read_from_the_controllers_although_a_broker_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controllers_log, "dump", (late := Cluster(DUMP, views=REPORTED)).dump)
    assert late.partitions() == REPORTED
    assert late.decided() == {("orders", 0): PartitionView(leader=None, replicas=ALL, isr=(1,))}
    zookeeper = Cluster(DUMP, views=REPORTED, zookeeper=True)
    assert zookeeper.decided() == REPORTED
