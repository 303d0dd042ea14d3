"""What an operator does to a cluster, each step waiting until the cluster has taken notice.

`KafkaCluster` acts at once and returns; the functions here go on until what the act is about can be
seen from outside: a broker that died is fenced and out of every ISR, one that came back is unfenced
and in every ISR it belongs to. A wait that gives up says what it saw last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ackproof.harness.cluster import features, images, quorum, tools, topology
from ackproof.harness.cluster.admin import PartitionView, TopicPartition
from ackproof.harness.cluster.node import CONFIG
from ackproof.harness.cluster.versions import numbers, uses_zookeeper
from ackproof.harness.cluster_spec import BrokerSpec
from ackproof.harness.errors import ClusterError
from ackproof.harness.waits import wait_for

if TYPE_CHECKING:
    from ackproof.harness.cluster.cluster import KafkaCluster

#: Sessions time out after 9 s (KRaft) or 18 s (ZooKeeper) unless a scenario says otherwise, and a
#: leader drops a follower from the ISR after 30 to 45 s.
_NOTICED_S = 90.0
_BACK_S = 90.0
_MOVED_S = 120.0

_REASSIGN = (
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka.admin.ReassignPartitionsCommand",
)
_CLUSTER_TOOL = ("org.apache.kafka.tools.ClusterTool", "kafka.tools.ClusterTool")
_DYNAMIC_QUORUM = (4, 1)
"""From here on the quorum of a cluster that was formatted with fixed voters can be changed."""

_VOTERS_UNKNOWN = "not all of the voters support it"
"""A leader's answer until each voter has told it what it supports (UpdateRaftVoter, KIP-853)."""

_REASSIGN_BY_BROKERS = (2, 6)
"""From here on brokers, not ZooKeeper, are told of a reassignment (KIP-455)."""


# What waits look at.


def await_fenced(cluster: KafkaCluster, broker: int, *, within_s: float = _NOTICED_S) -> None:
    """Wait until no other running broker lists this one; at once if there is no other."""
    others = [other for other in _running(cluster) if other != broker]

    def look() -> Mapping[int, frozenset[int]]:
        return {other: cluster.listed_by(other) for other in others}

    def noticed(seen: Mapping[int, frozenset[int]]) -> bool:
        return all(listed and broker not in listed for listed in seen.values())

    def failure(seen: Mapping[int, frozenset[int]]) -> ClusterError:
        said = "; ".join(
            f"broker {other} lists {sorted(listed) or 'nobody'}" for other, listed in seen.items()
        )
        return ClusterError(f"broker {broker} is not fenced after {within_s:g} s: {said}")

    wait_for(look, noticed, within_s=within_s, failure=failure)


def await_out_of_isr(cluster: KafkaCluster, broker: int, *, within_s: float = _NOTICED_S) -> None:
    """Wait until the broker is in no ISR, but for those in which it is alone.

    Without eligible leader replicas the last member of an ISR stays in it.
    """

    def inside(view: PartitionView) -> bool:
        return broker in view.isr and len(view.isr) > 1

    _await_partitions(
        cluster,
        lambda view: not inside(view),
        within_s=within_s,
        problem=f"broker {broker} is still in an ISR",
    )


def await_in_sync(cluster: KafkaCluster, broker: int, *, within_s: float = _BACK_S) -> None:
    """Wait until the broker is unfenced and in the ISR of every partition that it replicates.

    Raises ClusterError early, with its last log lines, if its process ends.
    """

    def look() -> bool:
        cluster.require_alive(broker)
        return cluster.in_sync(broker)

    def failure(_: bool) -> ClusterError:
        listed = sorted(cluster.listed_by(broker))
        absent = [
            _describe(place, view)
            for place, view in cluster.partitions().items()
            if broker in view.replicas and broker not in view.isr
        ]
        return ClusterError(
            f"broker {broker} is not back after {within_s:g} s: it lists brokers {listed}; "
            f"not in the ISR of {'; '.join(absent[:5]) or 'no partition'}",
            hint="Its log in the run directory says why.",
        )

    wait_for(look, bool, within_s=within_s, failure=failure)


# What is done to brokers.


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
        _describe(place, view)
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
        return {one: cluster.listed_by(one) for one in _running(cluster)}

    def listed(seen: Mapping[int, frozenset[int]]) -> bool:
        return all(number in brokers for brokers in seen.values())

    def failure(seen: Mapping[int, frozenset[int]]) -> ClusterError:
        late = [one for one, brokers in seen.items() if number not in brokers]
        return ClusterError(
            f"broker {number} is not listed by brokers {late} after {_BACK_S:g} s; its last log "
            f"lines:\n{cluster.nodes[number].log_tail()}"
        )

    wait_for(look, listed, within_s=_BACK_S, failure=failure)
    return number


def remove_broker(cluster: KafkaCluster, broker: int) -> None:
    """Move a broker's replicas to the others, shut it down, and make the cluster forget it.

    Raises ClusterError before it does anything if too few brokers would be left for a topic.
    """
    reassign(cluster, _evacuated(cluster, broker))
    stop(cluster, broker)
    node = cluster.nodes.pop(broker)
    node.discard(cluster.logs)
    brokers = tuple(one for one in cluster.topology.brokers if one.node_id != broker)
    cluster.topology = replace(cluster.topology, brokers=brokers)
    if not cluster.topology.zookeeper:
        tools.run(
            cluster.nodes[any_running(cluster)],
            _CLUSTER_TOOL,
            *("unregister", "--bootstrap-server", inside(cluster), "--id", str(broker)),
        )


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
    begin_reassignment(cluster, wanted)
    _await_partitions(
        cluster,
        lambda view: view.full_isr,
        wanted=wanted,
        within_s=within_s,
        problem="not moved",
    )


def begin_reassignment(
    cluster: KafkaCluster, wanted: Mapping[TopicPartition, Sequence[int]]
) -> None:
    """Ask Kafka for other replicas; raise ClusterError with its reason if it refuses."""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for (topic, number), replicas in wanted.items()
        ],
    }
    broker = any_running(cluster)
    if numbers(cluster.topology.kafka) >= _REASSIGN_BY_BROKERS:
        where = f"--bootstrap-server {inside(cluster)}"
    else:
        where = f"--zookeeper {cluster.topology.controllers[0].name}:{cluster.port('CONTROLLER')}"
    script = f"cat > /tmp/reassignment.json <<< '{json.dumps(plan)}'\n" + tools.command(
        _REASSIGN, f"{where} --reassignment-json-file /tmp/reassignment.json --execute"
    )
    tools.run_script(cluster.nodes[broker], script, "the reassignment")


# What is done to controllers, and to ZooKeeper nodes in their place.


def stop_controller(cluster: KafkaCluster, controller: int) -> None:
    """SIGTERM; until the rest of the quorum has a leader, if it is a majority."""
    cluster.nodes[controller].terminate()
    quorum.await_leader(cluster)


def kill_controller(cluster: KafkaCluster, controller: int) -> None:
    """SIGKILL; until the rest of the quorum has a leader, if it is a majority."""
    cluster.nodes[controller].kill()
    quorum.await_leader(cluster)


def start_controller(cluster: KafkaCluster, controller: int) -> None:
    """Start a stopped controller; until it follows or leads the quorum."""
    cluster.nodes[controller].start_again()
    quorum.await_member(cluster, controller)


def add_controller(cluster: KafkaCluster) -> int:
    """Boot another controller, with the next id; until it follows the quorum. Return its id.

    Raises ClusterError for Kafka before 4.1, whose quorum stays as it was formatted.
    """
    _make_dynamic(cluster)
    number = max(topology.CONTROLLER_ID, *cluster.nodes) + 1
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


def remove_controller(cluster: KafkaCluster, controller: int) -> None:
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
    broker = cluster.nodes[any_running(cluster)]
    identity = tools.run_script(
        node, f"sed -n s/^directory.id=//p {topology.DATA_DIR}/meta.properties", "its identity"
    )
    quorum.change(
        broker,
        *("--bootstrap-server", inside(cluster), "remove-controller"),
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
            upgrade_feature(cluster, "kraft.version", "1")
        except ClusterError as error:
            if _VOTERS_UNKNOWN not in error.message:
                raise
            return error.message
        return ""

    wait_for(refusal, lambda said: not said, within_s=_NOTICED_S, failure=ClusterError)
    cluster.topology = replace(cluster.topology, dynamic_quorum=True)


def upgrade_feature(cluster: KafkaCluster, feature: str, level: str) -> None:
    """Finalize a higher level of a feature; raise ClusterError with Kafka's reason to refuse."""
    features.upgrade(cluster.nodes[any_running(cluster)], inside(cluster), feature, level)


def feature_level(cluster: KafkaCluster, feature: str) -> str | None:
    """Return a feature's finalized level, None if the cluster does not know the feature."""
    return features.level(cluster.nodes[any_running(cluster)], inside(cluster), feature)


def _await_gone(cluster: KafkaCluster, broker: int) -> None:
    await_fenced(cluster, broker)
    if any(other != broker for other in _running(cluster)):
        await_out_of_isr(cluster, broker)


def _await_partitions(
    cluster: KafkaCluster,
    good: Callable[[PartitionView], bool],
    *,
    within_s: float,
    problem: str,
    wanted: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> None:
    """Wait until every partition (or every wanted one, with these replicas) is good."""
    views = cluster.partitions

    def late(seen: Mapping[TopicPartition, PartitionView]) -> list[str]:
        places = seen if wanted is None else wanted
        return [
            _describe(place, seen.get(place))
            for place in places
            if place not in seen
            or not good(seen[place])
            or (wanted is not None and set(seen[place].replicas) != set(wanted[place]))
        ]

    def failure(seen: Mapping[TopicPartition, PartitionView]) -> ClusterError:
        return ClusterError(f"{problem} after {within_s:g} s: {'; '.join(late(seen)[:8])}")

    wait_for(views, lambda seen: bool(seen) and not late(seen), within_s=within_s, failure=failure)


def _evacuated(cluster: KafkaCluster, broker: int) -> dict[TopicPartition, list[int]]:
    """Return new replicas for what the broker replicates: another broker in its place each time."""
    others = [other for other in cluster.broker_ids() if other != broker]
    moved: dict[TopicPartition, list[int]] = {}
    for turn, (place, view) in enumerate(sorted(cluster.partitions().items())):
        if broker not in view.replicas:
            continue
        free = [other for other in others if other not in view.replicas]
        if not free:
            raise ClusterError(
                f"broker {broker} cannot be removed: {_describe(place, view)} needs "
                f"{len(view.replicas)} brokers, and only {len(others)} would be left",
                hint="Add a broker first.",
            )
        stand_in = free[turn % len(free)]
        moved[place] = [stand_in if one == broker else one for one in view.replicas]
    return moved


def _running(cluster: KafkaCluster) -> list[int]:
    """Return the brokers that run and are not frozen."""
    return [
        broker
        for broker in cluster.broker_ids()
        if cluster.exit_status(broker) is None and not cluster.nodes[broker].paused()
    ]


def any_running(cluster: KafkaCluster) -> int:
    """Return a broker that runs; raise ClusterError if none does."""
    for broker in _running(cluster):
        return broker
    raise ClusterError("no broker runs that Kafka's tools could ask")


def inside(cluster: KafkaCluster) -> str:
    """Return where tools inside the network begin."""
    node = cluster.nodes[any_running(cluster)]
    return f"{node.spec.name}:{cluster.port('INTERNAL')}"


def _describe(place: TopicPartition, view: PartitionView | None) -> str:
    if view is None:
        return f"{place[0]}-{place[1]} is unknown to the brokers"
    return (
        f"{place[0]}-{place[1]} (leader {view.leader}, ISR {list(view.isr)} of "
        f"{list(view.replicas)})"
    )
