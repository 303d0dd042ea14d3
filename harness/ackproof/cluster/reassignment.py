"""Reassignment of partitions to other replicas, by Kafka's own tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ackproof.cluster import kafka_tools
from ackproof.cluster.admin import TopicPartition
from ackproof.cluster.readiness import await_partitions, describe
from ackproof.cluster.state import ClusterState
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers

_MOVED_S = 120.0

_REASSIGN = (
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka.admin.ReassignPartitionsCommand",
)
_REASSIGN_BY_BROKERS = (2, 6)
"""From this version on the tool sends a reassignment to brokers, not to ZooKeeper (KIP-455)."""


def reassign(cluster: ClusterState, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Move partitions to these replicas, and wait until they have exactly these, all in sync.

    Raises ClusterError if Kafka refuses, or after `_MOVED_S`.
    """
    if not replicas:
        return
    begin(cluster, replicas)
    await_partitions(
        cluster,
        lambda view: view.full_isr,
        replicas=replicas,
        within_s=_MOVED_S,
        problem="the reassignment is not complete",
    )


def begin(cluster: ClusterState, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Request other replicas; raise ClusterError with Kafka's reason if it refuses."""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(brokers)}
            for (topic, number), brokers in replicas.items()
        ],
    }
    node, topology = kafka_tools.a_running_broker(cluster), cluster.topology
    if numbers(topology.kafka) >= _REASSIGN_BY_BROKERS:
        server = f"--bootstrap-server {kafka_tools.internal_address(cluster, node)}"
    else:
        server = f"--zookeeper {topology.controllers[0].name}:{topology.port('CONTROLLER')}"
    script = f"cat > /tmp/reassignment.json <<< '{json.dumps(plan)}'\n" + kafka_tools.command(
        _REASSIGN, f"{server} --reassignment-json-file /tmp/reassignment.json --execute"
    )
    kafka_tools.run_script(node, script, "the reassignment")


def replicas_without(cluster: ClusterState, broker: int) -> dict[TopicPartition, list[int]]:
    """Return new replicas of the broker's partitions: other brokers replace it in turn.

    Raises ClusterError if too few brokers would be left for a partition.
    """
    others = [other for other in cluster.broker_ids() if other != broker]
    moved: dict[TopicPartition, list[int]] = {}
    for turn, (partition, view) in enumerate(sorted(cluster.partitions().items())):
        if broker not in view.replicas:
            continue
        free = [other for other in others if other not in view.replicas]
        if not free:
            raise ClusterError(
                f"broker {broker} cannot be removed: {describe(partition, view)} needs "
                f"{len(view.replicas)} brokers, and only {len(others)} would be left",
                hint="Add a broker first.",
            )
        substitute = free[turn % len(free)]
        moved[partition] = [substitute if one == broker else one for one in view.replicas]
    return moved
