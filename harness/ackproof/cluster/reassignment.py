"""Moving partitions to other brokers, by Kafka's own tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ackproof.cluster import kafka_tools
from ackproof.cluster.admin import TopicPartition
from ackproof.cluster.readiness import await_partitions, describe
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster

_MOVED_S = 120.0

_REASSIGN = (
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka.admin.ReassignPartitionsCommand",
)
_REASSIGN_BY_BROKERS = (2, 6)
"""From here on brokers, not ZooKeeper, are told of a reassignment (KIP-455)."""


def reassign(
    cluster: KafkaCluster,
    wanted: Mapping[TopicPartition, Sequence[int]],
    *,
    within_s: float = _MOVED_S,
) -> None:
    """Move partitions to other replicas; until they have exactly these, all in sync.

    Raises ClusterError if Kafka refuses, or after `within_s`.
    """
    if not wanted:
        return
    begin(cluster, wanted)
    await_partitions(
        cluster,
        lambda view: view.full_isr,
        wanted=wanted,
        within_s=within_s,
        problem="not moved",
    )


def begin(cluster: KafkaCluster, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Ask Kafka for other replicas; raise ClusterError with its reason if it refuses."""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for (topic, number), replicas in wanted.items()
        ],
    }
    broker = kafka_tools.any_running(cluster)
    if numbers(cluster.topology.kafka) >= _REASSIGN_BY_BROKERS:
        where = f"--bootstrap-server {kafka_tools.inside(cluster)}"
    else:
        where = f"--zookeeper {cluster.topology.controllers[0].name}:{cluster.port('CONTROLLER')}"
    script = f"cat > /tmp/reassignment.json <<< '{json.dumps(plan)}'\n" + kafka_tools.command(
        _REASSIGN, f"{where} --reassignment-json-file /tmp/reassignment.json --execute"
    )
    kafka_tools.run_script(cluster.nodes[broker], script, "the reassignment")


def evacuated(cluster: KafkaCluster, broker: int) -> dict[TopicPartition, list[int]]:
    """Return new replicas for what the broker replicates: another broker in its place each time."""
    others = [other for other in cluster.broker_ids() if other != broker]
    moved: dict[TopicPartition, list[int]] = {}
    for turn, (place, view) in enumerate(sorted(cluster.partitions().items())):
        if broker not in view.replicas:
            continue
        free = [other for other in others if other not in view.replicas]
        if not free:
            raise ClusterError(
                f"broker {broker} cannot be removed: {describe(place, view)} needs "
                f"{len(view.replicas)} brokers, and only {len(others)} would be left",
                hint="Add a broker first.",
            )
        stand_in = free[turn % len(free)]
        moved[place] = [stand_in if one == broker else one for one in view.replicas]
    return moved
