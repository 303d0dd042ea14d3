"""An operator's actions on controllers (KRaft) or ZooKeeper nodes.

Each action waits until the quorum reflects it.
"""

from __future__ import annotations

from dataclasses import replace

from ackproof.cluster import features, kafka_tools, quorum
from ackproof.cluster.node_start import CONFIG
from ackproof.cluster.readiness import FENCED_S
from ackproof.cluster.state import ClusterState
from ackproof.cluster.topology import NodeSpec
from ackproof.containers.paths import DATA_DIR
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers
from ackproof.scenario.cluster import CONTROLLER_ID
from ackproof.waiting import wait_for

_DYNAMIC_QUORUM = (4, 1)
"""From this version on, a quorum that was formatted with fixed voters can be changed."""

_VOTERS_UNKNOWN = "not all of the voters support it"
"""A leader's answer until each voter has sent what it supports (UpdateRaftVoter, KIP-853)."""


def add(cluster: ClusterState) -> int:
    """Boot another controller with the next id, wait until it follows the quorum; return its id.

    Raises ClusterError for Kafka before 4.1, whose quorum cannot be changed.
    """
    _make_dynamic(cluster)
    number = max(CONTROLLER_ID, *cluster.nodes) + 1
    spec = NodeSpec(node_id=number, role="controller", voter=True)
    cluster.nodes[number] = cluster.factory.create(spec, cluster.topology)
    cluster.nodes[number].boot()
    quorum.await_observer(cluster, number)
    topology = cluster.topology
    bootstrap = f"{topology.controllers[0].name}:{topology.port('CONTROLLER')}"
    kafka_tools.run(
        cluster.nodes[number],
        quorum.TOOL,
        *("--bootstrap-controller", bootstrap, "--command-config", CONFIG, "add-controller"),
    )
    cluster.topology = replace(topology, controllers=(*topology.controllers, spec))
    quorum.await_member(cluster, number)
    return number


def remove(cluster: ClusterState, controller: int) -> None:
    """Remove a dedicated controller from the quorum and end it; wait for a leader of the others.

    Raises ClusterError for Kafka before 4.1, a combined controller, and the last controller.
    """
    node = cluster.nodes[controller]
    rest = tuple(one for one in cluster.topology.controllers if one.node_id != controller)
    if node.spec.role != "controller" or not rest:
        raise ClusterError(
            f"{node.spec.name} cannot be removed from the quorum: it is "
            + ("also a broker" if node.spec.role == "broker" else "the only member")
        )
    _make_dynamic(cluster)
    directory_id = kafka_tools.run_script(
        node, f"sed -n s/^directory.id=//p {DATA_DIR}/meta.properties", "reading meta.properties"
    )
    kafka_tools.run_at_a_broker(
        cluster,
        quorum.TOOL,
        "remove-controller",
        *("--controller-id", str(controller)),
        *("--controller-directory-id", directory_id.strip()),
    )
    node.terminate()
    del cluster.nodes[controller]
    node.discard(cluster.logs)
    cluster.topology = replace(cluster.topology, controllers=rest)
    quorum.await_leader(cluster)


def _make_dynamic(cluster: ClusterState) -> None:
    """Move the set of voters into the metadata log (kraft.version 1); a no-op if it is there."""
    if numbers(cluster.topology.kafka) < _DYNAMIC_QUORUM:
        raise ClusterError(
            f"the quorum of Kafka {cluster.topology.kafka} cannot be changed: with voters that "
            "were fixed at formatting, this needs Kafka 4.1.0 or later (KIP-853)"
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

    wait_for(refusal, lambda reason: not reason, within_s=FENCED_S, failure=ClusterError)
    cluster.topology = replace(cluster.topology, dynamic_quorum=True)
