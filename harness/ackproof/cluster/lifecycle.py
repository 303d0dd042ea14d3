"""What an operator does to a cluster's brokers, each step waiting until the others took notice.

`KafkaCluster` acts at once and returns; the functions here go on until what the act is about can be
seen from outside: a broker that died is fenced and out of every ISR, one that came back is unfenced
and in every ISR it belongs to. `controllers` does the same to controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ackproof.cluster import kafka_tools, reassignment, topology
from ackproof.cluster.readiness import (
    BACK_S,
    await_fenced,
    await_in_sync,
    await_out_of_isr,
    describe,
)
from ackproof.containers import images
from ackproof.errors import ClusterError
from ackproof.kafka_versions import numbers, uses_zookeeper
from ackproof.scenario.cluster import BrokerSpec
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster

_CLUSTER_TOOL = ("org.apache.kafka.tools.ClusterTool", "kafka.tools.ClusterTool")


def kill(cluster: KafkaCluster, broker: int) -> None:
    """SIGKILL; until the broker is fenced and out of every ISR."""
    cluster.kill(broker)
    _await_gone(cluster, broker)


def stop(cluster: KafkaCluster, broker: int) -> None:
    """SIGTERM, a controlled shutdown; until the broker is fenced and out of every ISR."""
    cluster.terminate(broker)
    _await_gone(cluster, broker)


def start(cluster: KafkaCluster, broker: int) -> None:
    """Start a stopped broker; until it is unfenced and in every ISR it belongs to."""
    cluster.start(broker)
    await_in_sync(cluster, broker)


def pause(cluster: KafkaCluster, broker: int) -> None:
    """Freeze the broker; until it is fenced and out of every ISR."""
    cluster.pause(broker)
    _await_gone(cluster, broker)


def resume(cluster: KafkaCluster, broker: int) -> None:
    """Let a frozen broker go on; until it is unfenced and in every ISR it belongs to."""
    cluster.resume(broker)
    await_in_sync(cluster, broker)


def replace_disk(cluster: KafkaCluster, broker: int) -> None:
    """Give a broker an empty disk: kill it, wipe it, start it; until it has copied everything.

    Raises ClusterError before it does anything if a replica on that disk is the last in sync: it
    would come back empty, and could be elected.
    """
    last = [
        describe(place, view)
        for place, view in cluster.partitions().items()
        if view.isr == (broker,)
    ]
    if last:
        raise ClusterError(
            f"broker {broker} is the only one in sync for {'; '.join(last[:5])}: with an empty "
            "disk their records would be gone",
            hint="Wait for full ISR first, or kill, wipe and start it one by one if that is meant.",
        )
    kill(cluster, broker)
    cluster.wipe(broker)
    start(cluster, broker)


def upgrade(cluster: KafkaCluster, broker: int, version: str) -> None:
    """Restart a broker with another Kafka version on the same disk; until it is in every ISR.

    It goes on with the protocol and the features of the cluster's own version, so that brokers of
    both versions understand each other.

    Raises ClusterError for a version that keeps its metadata elsewhere, or is older.
    """
    node = cluster.nodes[broker]
    ours = cluster.topology.kafka
    if uses_zookeeper(version) != uses_zookeeper(ours):
        raise ClusterError(
            f"a cluster of Kafka {ours} cannot be upgraded to {version}: one has ZooKeeper, the "
            "other KRaft, and ackproof does not migrate metadata"
        )
    if numbers(version) < numbers(ours):
        raise ClusterError(f"Kafka {version} is older than the cluster's {ours}: no downgrade")
    image = images.ensure(version, client=cluster.client).reference
    spec = node.spec
    if uses_zookeeper(ours):
        protocol = ".".join(ours.split(".")[: 3 if ours.startswith("0.") else 2])
        spec = replace(spec, settings={"inter.broker.protocol.version": protocol, **spec.settings})
    stop(cluster, broker)
    cluster.replace_node(
        cluster.maker.make(spec, cluster.topology, image=image, address=node.address)
    )
    await_in_sync(cluster, broker)


def add_broker(cluster: KafkaCluster, own: BrokerSpec | None = None) -> int:
    """Boot another broker, with the next id; until every running one lists it. Return its id.

    Nothing is moved to it: new topics may use it, and `reassign` moves partitions.
    """
    number = max(cluster.broker_ids()) + 1
    listeners, proxied = cluster.topology.listeners, cluster.topology.proxied
    ports = iter(cluster.maker.more_ports(topology.ports_of_broker(listeners, proxied)))
    spec = topology.broker(number, own or BrokerSpec(), listeners, ports, proxied=proxied)
    cluster.topology = replace(cluster.topology, brokers=(*cluster.topology.brokers, spec))
    cluster.nodes[number] = cluster.maker.make(spec, cluster.topology)
    cluster.lead_through_proxy(number)
    cluster.nodes[number].boot()

    def look() -> Mapping[int, frozenset[int]]:
        cluster.require_alive(number)
        return {one: cluster.listed_by(one) for one in kafka_tools.running(cluster)}

    def listed(seen: Mapping[int, frozenset[int]]) -> bool:
        return all(number in brokers for brokers in seen.values())

    def failure(seen: Mapping[int, frozenset[int]]) -> ClusterError:
        late = [one for one, brokers in seen.items() if number not in brokers]
        return ClusterError(
            f"broker {number} is not listed by brokers {late} after {BACK_S:g} s; its last log "
            f"lines:\n{cluster.nodes[number].log_tail()}"
        )

    wait_for(look, listed, within_s=BACK_S, failure=failure)
    return number


def remove_broker(cluster: KafkaCluster, broker: int) -> None:
    """Move a broker's replicas to the others, shut it down, and make the cluster forget it.

    Raises ClusterError before it does anything if too few brokers would be left for a topic.
    """
    reassignment.reassign(cluster, reassignment.evacuated(cluster, broker))
    stop(cluster, broker)
    node = cluster.nodes.pop(broker)
    node.discard(cluster.logs)
    brokers = tuple(one for one in cluster.topology.brokers if one.node_id != broker)
    cluster.topology = replace(cluster.topology, brokers=brokers)
    if not cluster.topology.zookeeper:
        kafka_tools.run(
            cluster.nodes[kafka_tools.any_running(cluster)],
            _CLUSTER_TOOL,
            *("unregister", "--bootstrap-server", kafka_tools.inside(cluster), "--id", str(broker)),
        )


def _await_gone(cluster: KafkaCluster, broker: int) -> None:
    await_fenced(cluster, broker)
    if any(other != broker for other in kafka_tools.running(cluster)):
        await_out_of_isr(cluster, broker)
