"""Whom the metadata of a started cluster is asked of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.metadata import ClusterMetadata

ALL = (1, 2, 3)
#: What brokers tell and what the controllers' log says of the same partition.
TOLD = {("orders", 0): PartitionView(leader=1, replicas=ALL, isr=ALL)}
LOGGED = {("orders", 0): SimpleNamespace(leader=-1, replicas=ALL, isr=())}


@pytest.mark.parametrize(
    ("running", "zookeeper", "asked"), [([1], None, True), ([], None, False), ([], 1, True)]
)
def test_brokers_are_asked_only_if_one_runs_or_zookeeper_knows(
    running: list[int], zookeeper: int | None, asked: bool
) -> None:
    requests = []

    def partitions() -> dict[tuple[str, int], PartitionView]:
        requests.append(1)
        return TOLD

    cluster: Any = SimpleNamespace(
        admin=None,
        topology=SimpleNamespace(zookeeper=zookeeper),
        running_brokers=lambda: running,
        partitions=partitions,
    )
    metadata = ClusterMetadata(cluster)
    log: Any = SimpleNamespace(partitions=lambda: LOGGED)
    metadata._log = log
    assert metadata.leader("orders", 0) == (1 if asked else None)
    assert bool(requests) is asked


def test_the_leaders_of_many_partitions_take_one_request() -> None:
    requests = []

    def partitions() -> dict[tuple[str, int], PartitionView]:
        requests.append(1)
        return TOLD | {("orders", 1): PartitionView(leader=None, replicas=ALL, isr=())}

    cluster: Any = SimpleNamespace(
        admin=None,
        topology=SimpleNamespace(zookeeper=None),
        running_brokers=lambda: [1],
        partitions=partitions,
    )
    places = [("orders", 0), ("orders", 1), ("absent", 0)]
    led = ClusterMetadata(cluster).leaders(places)
    assert list(led.items()) == [(places[0], 1), (places[1], None), (places[2], None)]
    assert requests == [1]
