"""An operator's actions on brokers. Each waits until the other brokers have noticed it.

A broker that stops is fenced and out of every ISR afterwards. A broker that starts is unfenced and
in every ISR of its partitions afterwards. `controllers` has the same for controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ackproof.cluster import kafka_tools, proxy_routes, reassignment
from ackproof.cluster.readiness import (
    RECOVERY_S,
    await_fenced,
    await_in_sync,
    await_out_of_isr,
)
from ackproof.cluster.state import ClusterState
from ackproof.cluster.topology import broker_spec, ports_of_broker
from ackproof.containers import images
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers, uses_zookeeper
from ackproof.scenario.cluster import BrokerSpec
from ackproof.waiting import wait_for

_CLUSTER_TOOL = ("org.apache.kafka.tools.ClusterTool", "kafka.tools.ClusterTool")


def stop(cluster: ClusterState, broker: int) -> None:
    """Send SIGTERM (controlled shutdown); wait until the broker is fenced and out of every ISR."""
    cluster.nodes[broker].terminate()
    _await_absence(cluster, broker)


def upgrade(cluster: ClusterState, broker: int, version: str) -> None:
    """Restart a broker with another Kafka version on the same disk; wait until it is in sync.

    The broker continues with the protocol and the features of the cluster's own version, so that
    brokers of both versions understand each other.

    Raises ClusterError for a version that stores its metadata elsewhere, and for an older one.
    """
    node = cluster.nodes[broker]
    current = cluster.topology.kafka
    if uses_zookeeper(version) != uses_zookeeper(current):
        raise ClusterError(
            f"a cluster of Kafka {current} cannot be upgraded to {version}: one uses ZooKeeper, "
            "the other KRaft, and ackproof does not migrate metadata"
        )
    if numbers(version) < numbers(current):
        raise ClusterError(
            f"Kafka {version} is older than the cluster's {current}; downgrades are not supported"
        )
    image = images.ensure(version, client=cluster.client).reference
    spec = node.spec
    if uses_zookeeper(current):
        protocol = ".".join(current.split(".")[: 3 if current.startswith("0.") else 2])
        spec = replace(spec, settings={"inter.broker.protocol.version": protocol, **spec.settings})
    stop(cluster, broker)
    node.discard(cluster.logs)
    cluster.nodes[broker] = cluster.factory.create(
        spec, cluster.topology, image=image, address=node.address
    )
    cluster.nodes[broker].boot()
    await_in_sync(cluster, broker)


def add_broker(cluster: ClusterState) -> int:
    """Boot another broker with the next id, wait until every broker lists it; return its id.

    No partition is moved to it. New topics may use it, and `reassign` moves partitions.
    """
    number = max(cluster.broker_ids()) + 1
    topology = cluster.topology
    count = ports_of_broker(topology.listeners, topology.proxied)
    ports = iter(cluster.factory.reserve_ports(count))
    spec = broker_spec(number, BrokerSpec(), topology.listeners, ports, proxied=topology.proxied)
    cluster.topology = replace(topology, brokers=(*topology.brokers, spec))
    node = cluster.factory.create(spec, cluster.topology)
    cluster.nodes[number] = node
    if cluster.proxy is not None:
        proxy_routes.add(cluster.proxy, node, cluster.topology)
    node.boot()

    def listed_brokers() -> Mapping[int, frozenset[int]]:
        cluster.require_alive(number)
        return {one: cluster.brokers_known_to(one) for one in cluster.running_brokers()}

    def failure(lists: Mapping[int, frozenset[int]]) -> ClusterError:
        late = [one for one, listed in lists.items() if number not in listed]
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
    return number


def remove_broker(cluster: ClusterState, broker: int) -> None:
    """Move a broker's replicas to the others, shut it down, and unregister it.

    Raises ClusterError, and does nothing, if too few brokers would be left for a topic.
    """
    reassignment.reassign(cluster, reassignment.replicas_without(cluster, broker))
    stop(cluster, broker)
    node = cluster.nodes.pop(broker)
    node.discard(cluster.logs)
    brokers = tuple(one for one in cluster.topology.brokers if one.node_id != broker)
    cluster.topology = replace(cluster.topology, brokers=brokers)
    if not cluster.topology.zookeeper:
        running = kafka_tools.a_running_broker(cluster)
        bootstrap = kafka_tools.internal_address(cluster, running)
        kafka_tools.run(
            running,
            _CLUSTER_TOOL,
            *("unregister", "--bootstrap-server", bootstrap, "--id", str(broker)),
        )


def _await_absence(cluster: ClusterState, broker: int) -> None:
    await_fenced(cluster, broker)
    if any(other != broker for other in cluster.running_brokers()):
        await_out_of_isr(cluster, broker)
