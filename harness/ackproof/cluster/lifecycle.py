"""An operator's actions on brokers, controllers and partitions.

Each action waits until the cluster reflects it: a stopped broker is fenced and out of every ISR, a
started broker is unfenced and in the ISR of each of its partitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ackproof.cluster import readiness
from ackproof.cluster.admin import describe
from ackproof.cluster.fault_errors import raises_fault_errors, refusals
from ackproof.cluster.node_files import CONFIG
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.readiness import FENCED_S
from ackproof.cluster.times import RECOVERY_S
from ackproof.cluster.topology import NodeSpec, broker_spec, metadata_mode
from ackproof.containers import commands, images
from ackproof.containers.images import DATA_DIR
from ackproof.containers.kafka_tools import TOOLS, kafka_command
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers
from ackproof.scenario.cluster import CONTROLLER_ID, BrokerSpec
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import TopicPartition

_CLUSTER_TOOL = ("org.apache.kafka.tools.ClusterTool", "kafka.tools.ClusterTool")

_REASSIGN_BY_BROKERS = (2, 6)
"""From this version on the tool sends a reassignment to brokers, not to ZooKeeper (KIP-455)."""

_DYNAMIC_QUORUM = (4, 1)
"""From this version on, a quorum that was formatted with fixed voters can be changed."""

_VOTERS_UNKNOWN = "not all of the voters support it"
"""A leader's answer until each voter has sent what it supports (UpdateRaftVoter, KIP-853)."""

_MOVED_S = 120.0

#: Printed by `org.apache.kafka.common.utils.AppInfoParser`.
_VERSION = re.compile(r"Kafka version: ([0-9][0-9A-Za-z.-]*)")


def stop(cluster: ClusterNodes, broker: int) -> None:
    """Send SIGTERM (controlled shutdown); wait until the broker is fenced and out of every ISR."""
    cluster.nodes[broker].terminate()
    readiness.await_fenced(cluster, broker)
    if any(other != broker for other in cluster.running_brokers()):
        readiness.await_out_of_isr(cluster, broker)


def reassign(cluster: ClusterNodes, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Move partitions to these replicas, and wait until they have exactly these, all in sync.

    Raises ClusterError if Kafka refuses, or after `_MOVED_S`.
    """
    if not replicas:
        return
    begin_reassignment(cluster, replicas)
    readiness.await_partitions(
        cluster,
        lambda view: view.full_isr,
        replicas=replicas,
        within_s=_MOVED_S,
        problem="the reassignment is not complete",
    )


def begin_reassignment(
    cluster: ClusterNodes, replicas: Mapping[TopicPartition, Sequence[int]]
) -> None:
    """Request other replicas; raise ClusterError with Kafka's reason if it refuses."""
    # Without --additional the tool refuses every move while another one is not complete.
    _reassignment_tool(cluster, replicas, "--execute", of_brokers=" --additional")


def cancel_reassignment(
    cluster: ClusterNodes, replicas: Mapping[TopicPartition, Sequence[int]]
) -> None:
    """Cancel the moves of partitions that have these replicas; raise ClusterError if refused."""
    if numbers(cluster.topology.kafka) < _REASSIGN_BY_BROKERS:
        raise ClusterError(
            f"Kafka {cluster.topology.kafka} cannot cancel a move: 2.6 and later can"
        )
    _reassignment_tool(cluster, replicas, "--cancel")


def _reassignment_tool(
    cluster: ClusterNodes,
    replicas: Mapping[TopicPartition, Sequence[int]],
    action: str,
    *,
    of_brokers: str = "",
) -> None:
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(brokers)}
            for (topic, number), brokers in replicas.items()
        ],
    }
    node, topology = cluster.running_broker(), cluster.topology
    if numbers(topology.kafka) >= _REASSIGN_BY_BROKERS:
        server = f"--bootstrap-server {cluster.internal_address(node)}{of_brokers}"
    else:
        server = f"--zookeeper {topology.controllers[0].name}:{topology.ports['CONTROLLER']}"
    script = f"cat > /tmp/reassignment.json <<< '{json.dumps(plan)}'\n" + kafka_command(
        TOOLS["kafka-reassign-partitions"],
        f"{server} --reassignment-json-file /tmp/reassignment.json {action}",
    )
    commands.run_script(node, script, "the reassignment")


def _replicas_without(cluster: ClusterNodes, broker: int) -> dict[TopicPartition, list[int]]:
    """Return new replicas of the broker's partitions: other brokers replace it in turn."""
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
        moved[partition] = [
            substitute if replica == broker else replica for replica in view.replicas
        ]
    return moved


def _make_dynamic(cluster: ClusterNodes) -> None:
    """Move the voters into the metadata log (kraft.version 1); a no-op if they are there."""
    if numbers(cluster.topology.kafka) < _DYNAMIC_QUORUM:
        raise ClusterError(
            f"the quorum of Kafka {cluster.topology.kafka} cannot be changed: with voters that "
            "were fixed at formatting, this needs Kafka 4.1.0 or later (KIP-853)"
        )
    if cluster.topology.dynamic_quorum:
        return

    def refusal() -> str:
        try:
            upgrade_feature(cluster, "kraft.version", "1")
        except ClusterError as error:
            if _VOTERS_UNKNOWN not in error.message:
                raise
            return error.message
        return ""

    wait_for(refusal, lambda reason: not reason, within_s=FENCED_S, failure=ClusterError)
    cluster.topology = replace(cluster.topology, dynamic_quorum=True)


def upgrade_feature(cluster: ClusterNodes, feature: str, level: str) -> None:
    """Finalize a higher level of a feature; raise ClusterError with Kafka's reason to refuse.

    Levels of metadata.version have names (``4.1-IV1``); levels of other features are numbers.
    """
    metadata = feature == "metadata.version"
    change = ("--metadata", level) if metadata else ("--feature", f"{feature}={level}")
    cluster.run_kafka_tool(TOOLS["kafka-features"], "upgrade", *change)


def parse_feature(description: str, feature: str) -> str | None:
    """Return a feature's finalized level in the output of `kafka-features describe`.

    None if the cluster does not know the feature.
    """
    line = rf"^Feature: {re.escape(feature)}\s.*FinalizedVersionLevel: (?P<level>\S+)"
    match = re.search(line, description, re.MULTILINE)
    return match["level"] if match else None


@raises_fault_errors
class NodeOperations:
    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster
        self._added_brokers: list[int] = []
        self._added_controllers: list[int] = []

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        with refusals("the reassignment"):
            begin_reassignment(self._cluster, replicas)

    def cancel_reassignment(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        with refusals("the cancellation"):
            cancel_reassignment(self._cluster, replicas)

    @refusals("another broker")
    def add_broker(self) -> None:
        cluster = self._cluster
        number = max(cluster.broker_ids()) + 1
        topology, ports = cluster.topology, cluster.factory.ports
        spec = broker_spec(
            number, BrokerSpec(), topology.listeners, ports, proxied=topology.proxied
        )
        cluster.topology = replace(topology, brokers=(*topology.brokers, spec))
        node = cluster.factory.create(spec, cluster.topology)
        cluster.nodes[number] = node
        cluster.add_proxy_routes(node)
        node.boot()

        def listed_brokers() -> Mapping[int, frozenset[int]]:
            cluster.require_alive(number)
            return {other: cluster.brokers_known_to(other) for other in cluster.running_brokers()}

        def failure(lists: Mapping[int, frozenset[int]]) -> ClusterError:
            late = [broker for broker, listed in lists.items() if number not in listed]
            return ClusterError(
                f"brokers {late} do not list broker {number} after {RECOVERY_S:g} s; its last log "
                f"lines:\n{node.log_tail()}"
            )

        wait_for(
            listed_brokers,
            lambda lists: all(number in listed for listed in lists.values()),
            within_s=RECOVERY_S,
            failure=failure,
        )
        self._added_brokers.append(number)

    def added(self) -> Sequence[int]:
        return list(self._added_brokers)

    def remove_broker(self, broker: int) -> None:
        with refusals(f"the removal of broker {broker}"):
            cluster = self._cluster
            reassign(cluster, _replicas_without(cluster, broker))
            stop(cluster, broker)
            cluster.nodes.pop(broker).discard(cluster.logs)
            brokers = tuple(spec for spec in cluster.topology.brokers if spec.node_id != broker)
            cluster.topology = replace(cluster.topology, brokers=brokers)
            if cluster.topology.metadata.keeps_stopped_brokers:
                node = cluster.running_broker()
                bootstrap = ("--bootstrap-server", cluster.internal_address(node))
                unregister = ("unregister", *bootstrap, "--id", str(broker))
                commands.run_kafka_tool(node, _CLUSTER_TOOL, *unregister)

    def listed(self, broker: int) -> bool:
        others = self._cluster.broker_ids()
        return any(broker in self._cluster.brokers_known_to(other) for other in others) or any(
            broker in view.replicas for view in self._cluster.partitions().values()
        )

    @refusals("another controller")
    def add_controller(self) -> None:
        cluster = self._cluster
        _make_dynamic(cluster)
        number = max(CONTROLLER_ID, *cluster.nodes) + 1
        spec = NodeSpec(node_id=number, role="controller", voter=True)
        cluster.nodes[number] = cluster.factory.create(spec, cluster.topology)
        cluster.nodes[number].boot()
        readiness.await_observer(cluster, number)
        topology = cluster.topology
        bootstrap = f"{topology.controllers[0].name}:{topology.ports['CONTROLLER']}"
        commands.run_kafka_tool(
            cluster.nodes[number],
            TOOLS["kafka-metadata-quorum"],
            *("--bootstrap-controller", bootstrap, "--command-config", CONFIG, "add-controller"),
        )
        cluster.topology = replace(topology, controllers=(*topology.controllers, spec))
        readiness.await_member(cluster, number)
        self._added_controllers.append(number)

    def added_controllers(self) -> Sequence[int]:
        return list(self._added_controllers)

    def remove_controller(self, controller: int) -> None:
        with refusals(f"the removal of controller {controller}"):
            cluster = self._cluster
            node, controllers = cluster.nodes[controller], cluster.topology.controllers
            rest = tuple(spec for spec in controllers if spec.node_id != controller)
            if node.spec.role != "controller" or not rest:
                raise ClusterError(
                    f"{node.name} cannot be removed from the quorum: it is "
                    + ("also a broker" if node.spec.role == "broker" else "the only member")
                )
            _make_dynamic(cluster)
            directory_id = commands.run_script(
                node,
                f"sed -n s/^directory.id=//p {DATA_DIR}/meta.properties",
                "reading meta.properties",
            )
            cluster.run_kafka_tool(
                TOOLS["kafka-metadata-quorum"],
                "remove-controller",
                *("--controller-id", str(controller)),
                *("--controller-directory-id", directory_id.strip()),
            )
            node.terminate()
            del cluster.nodes[controller]
            node.discard(cluster.logs)
            cluster.topology = replace(cluster.topology, controllers=rest)
            readiness.await_quorum_leader(cluster)

    def voters(self) -> Sequence[int]:
        return readiness.voters(self._cluster)

    def feature_level(self, feature: str) -> str | None:
        with refusals(f"the request for the level of {feature}"):
            described = self._cluster.run_kafka_tool(TOOLS["kafka-features"], "describe")
        return parse_feature(described, feature)

    def upgrade_feature(self, feature: str, level: str) -> None:
        with refusals(f"{feature}={level}"):
            upgrade_feature(self._cluster, feature, level)

    def version(self, broker: int) -> str | None:
        with refusals(f"the log of broker {broker}"):
            log = self._cluster.nodes[broker].container.logs().decode(errors="replace")
        versions = _VERSION.findall(log)
        return versions[-1] if versions else None

    def upgrade(self, broker: int, version: str) -> None:
        with refusals(f"the upgrade of broker {broker}"):
            cluster, current = self._cluster, self._cluster.topology.kafka
            node = cluster.nodes[broker]
            # The broker continues with the protocol and the features of the cluster's own version,
            # so that brokers of both versions understand each other.
            metadata = cluster.topology.metadata
            if metadata_mode(version) != metadata:
                raise ClusterError(
                    f"a cluster of Kafka {current} cannot be upgraded to {version}: one uses "
                    "ZooKeeper, the other KRaft, and ackproof does not migrate metadata"
                )
            if numbers(version) < numbers(current):
                raise ClusterError(
                    f"Kafka {version} is older than the cluster's {current}; downgrades are not "
                    "supported"
                )
            image = images.ensure(version, client=cluster.client).reference
            settings = {**metadata.upgrade_settings(current), **node.spec.settings}
            spec = replace(node.spec, settings=settings)
            stop(cluster, broker)
            node.discard(cluster.logs)
            cluster.nodes[broker] = cluster.factory.create(
                spec, cluster.topology, image=image, address=node.address
            )
            cluster.nodes[broker].boot()
            readiness.await_in_sync(cluster, broker)
