from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.lifecycle import (
    NodeOperations,
    begin_reassignment,
    cancel_reassignment,
    parse_feature,
)
from ackproof.containers import commands
from ackproof.errors import ClusterError
from ackproof_faults.evidence import FaultError

DESCRIBED = (
    "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
    "FinalizedVersionLevel: 1\tEpoch: 42\n"
    "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.3-IV0\t"
    "FinalizedVersionLevel: 4.3-IV0\tEpoch: 42\n"
)


@pytest.mark.parametrize(
    ("feature", "level"),
    [("group.version", "1"), ("metadata.version", "4.3-IV0"), ("transaction.version", None)],
)
def test_parse_returns_the_finalized_level(feature: str, level: str | None) -> None:
    assert parse_feature(DESCRIBED, feature) == level


def test_a_broker_is_not_removed_if_too_few_would_be_left_for_a_topic() -> None:
    view = PartitionView(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))
    cluster: Any = SimpleNamespace(
        broker_ids=lambda: [1, 2, 3], partitions=lambda: {("orders", 0): view}
    )
    with pytest.raises(FaultError, match=r"orders-0 .* needs 3 brokers, and only 2 would be left"):
        NodeOperations(cluster).remove_broker(1)


@pytest.mark.parametrize(("kafka", "additional"), [("2.5.1", False), ("2.6.0", True)])
def test_a_move_may_begin_while_another_is_not_complete(
    monkeypatch: pytest.MonkeyPatch, kafka: str, additional: bool
) -> None:
    """The older tool writes to ZooKeeper, and has no such option."""
    scripts: list[str] = []
    monkeypatch.setattr(commands, "run_script", lambda node, script, what: scripts.append(script))
    zookeeper = SimpleNamespace(name="zookeeper")
    topology = SimpleNamespace(kafka=kafka, controllers=[zookeeper], ports={"CONTROLLER": 2181})
    cluster: Any = SimpleNamespace(
        running_broker=lambda: None, internal_address=lambda node: "b1:9092", topology=topology
    )
    begin_reassignment(cluster, {("orders", 0): [4, 2, 1]})
    assert ("--additional" in scripts[0]) is additional
    if additional:
        cancel_reassignment(cluster, {("orders", 0): [4, 2, 1]})
        assert "--cancel" in scripts[1]
        assert "--additional" not in scripts[1]
    else:
        with pytest.raises(ClusterError, match=r"2\.6 and later"):
            cancel_reassignment(cluster, {("orders", 0): [4, 2, 1]})
