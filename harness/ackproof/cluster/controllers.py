"""What an operator does to those who decide over metadata, KRaft controllers or ZooKeeper nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ackproof.cluster import (
    features,
    kafka_tools,
    quorum,
    topology,
)
from ackproof.cluster.node import CONFIG
from ackproof.cluster.readiness import NOTICED_S
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers
from ackproof.scenario.cluster import CONTROLLER_ID
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster

_DYNAMIC_QUORUM = (4, 1)
"""From here on the quorum of a cluster that was formatted with fixed voters can be changed."""

_VOTERS_UNKNOWN = "not all of the voters support it"
"""A leader's answer until each voter has told it what it supports (UpdateRaftVoter, KIP-853)."""


def stop(cluster: KafkaCluster, controller: int) -> None:
    """SIGTERM; until the rest of the quorum has a leader, if it is a majority."""
    cluster.nodes[controller].terminate()
    quorum.await_leader(cluster)


def kill(cluster: KafkaCluster, controller: int) -> None:
    """SIGKILL; until the rest of the quorum has a leader, if it is a majority."""
    cluster.nodes[controller].kill()
    quorum.await_leader(cluster)


def start(cluster: KafkaCluster, controller: int) -> None:
    """Start a stopped controller; until it follows or leads the quorum."""
    cluster.nodes[controller].start_again()
    quorum.await_member(cluster, controller)


def add(cluster: KafkaCluster) -> int:
    """Boot another controller, with the next id; until it follows the quorum. Return its id.

    Raises ClusterError for Kafka before 4.1, whose quorum stays as it was formatted.
    """
    _make_dynamic(cluster)
    number = max(CONTROLLER_ID, *cluster.nodes) + 1
    spec = topology.NodeSpec(node_id=number, role="controller", voter=True)
    cluster.nodes[number] = cluster.maker.make(spec, cluster.topology)
    cluster.nodes[number].boot()
    quorum.await_observer(cluster, number)
    voters = (*cluster.topology.controllers, spec)
    place = f"{cluster.topology.controllers[0].name}:{cluster.port('CONTROLLER')}"
    config = ("--command-config", CONFIG)
    quorum.change(cluster.nodes[number], "--bootstrap-controller", place, *config, "add-controller")
    cluster.topology = replace(cluster.topology, controllers=voters)
    quorum.await_member(cluster, number)
    return number


def remove(cluster: KafkaCluster, controller: int) -> None:
    """Take a dedicated controller out of the quorum and end it; until the rest has a leader.

    Raises ClusterError for Kafka before 4.1, a combined controller, and the last one.
    """
    node = cluster.nodes[controller]
    rest = tuple(one for one in cluster.topology.controllers if one.node_id != controller)
    if node.spec.role != "controller" or not rest:
        raise ClusterError(
            f"{node.spec.name} cannot be removed from the quorum: it is "
            + ("a broker, too" if node.spec.role == "broker" else "the only member")
        )
    _make_dynamic(cluster)
    broker = cluster.nodes[kafka_tools.any_running(cluster)]
    identity = kafka_tools.run_script(
        node, f"sed -n s/^directory.id=//p {topology.DATA_DIR}/meta.properties", "its identity"
    )
    quorum.change(
        broker,
        *("--bootstrap-server", kafka_tools.inside(cluster), "remove-controller"),
        *("--controller-id", str(controller), "--controller-directory-id", identity.strip()),
    )
    node.terminate()
    del cluster.nodes[controller]
    node.discard(cluster.logs)
    cluster.topology = replace(cluster.topology, controllers=rest)
    quorum.await_leader(cluster)


def _make_dynamic(cluster: KafkaCluster) -> None:
    """Have the metadata log say who votes; a no-op if it does."""
    if numbers(cluster.topology.kafka) < _DYNAMIC_QUORUM:
        raise ClusterError(
            f"the quorum of Kafka {cluster.topology.kafka} cannot be changed: a quorum that was "
            "formatted with fixed voters can be from 4.1.0 on (KIP-853)"
        )
    if cluster.topology.dynamic_quorum:
        return

    def refusal() -> str:
        try:
            features.upgrade(cluster, "kraft.version", "1")
        except ClusterError as error:
            if _VOTERS_UNKNOWN not in error.message:
                raise
            return error.message
        return ""

    wait_for(refusal, lambda said: not said, within_s=NOTICED_S, failure=ClusterError)
    cluster.topology = replace(cluster.topology, dynamic_quorum=True)
