"""The nodes that decide over metadata: who leads them, and who follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ackproof.cluster import kafka_tools
from ackproof.cluster.zookeeper import CLIENT_PORT
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster
    from ackproof.cluster.node import KafkaNode

_WITHIN_S = 60.0
_EVERY_S = 0.3

_QUORUM_TOOL = (
    "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka.admin.MetadataQuorumCommand",
)
_SRVR = f"exec 3<>/dev/tcp/localhost/{CLIENT_PORT} && echo srvr >&3 && cat <&3"

#: What a member can be, in lower case.
MEMBERS = ("leader", "follower", "standalone")
_OBSERVER = "observer"


def members(cluster: KafkaCluster) -> Mapping[int, str]:
    """Return what each running member of the quorum is: leader, follower, lagging.

    Nobody is there while nobody can say. ZooKeeper alone is `standalone`.
    """
    if cluster.topology.zookeeper:
        return _zookeepers(cluster)
    running = _running(cluster)
    return {one: state for one, state in _replicas(cluster).items() if one in running}


def voters(cluster: KafkaCluster) -> list[int]:
    """Return who leads the quorum or follows it without lag, by what brokers are told of it."""
    return sorted(one for one, state in _replicas(cluster).items() if state in MEMBERS)


def leader(cluster: KafkaCluster) -> int | None:
    """Return who leads the quorum, None while nobody does or can say."""
    return next((one for one, state in members(cluster).items() if state == "leader"), None)


def _replicas(cluster: KafkaCluster) -> Mapping[int, str]:
    """Return the state of everything that follows the metadata log, brokers included."""
    for broker in cluster.broker_ids():
        node = cluster.nodes[broker]
        if node.exit_status() is not None or node.paused():
            continue
        try:
            said = kafka_tools.run(
                node,
                _QUORUM_TOOL,
                *("--bootstrap-server", f"{node.spec.name}:{cluster.port('INTERNAL')}"),
                *("describe", "--replication"),
            )
        except ClusterError:
            continue
        return parse(said)
    return {}


def parse(replication: str) -> Mapping[int, str]:
    """Return the state of each replica: leader, follower or observer.

    `lagging` is one that has not got everything yet. `replication` is what `kafka-metadata-quorum
    describe --replication` prints.
    """
    header, *lines = [line.split("\t") for line in replication.strip().splitlines()] or [[]]
    names = [name.strip() for name in header]
    found: dict[int, str] = {}
    for line in lines:
        row = dict(zip(names, (value.strip() for value in line), strict=False))
        state = row.get("Status", "").lower()
        if state in (*MEMBERS, _OBSERVER):
            behind = state != "leader" and row.get("Lag") != "0"
            found[int(row["NodeId"])] = "lagging" if behind else state
    return found


def change(node: KafkaNode, *arguments: str) -> None:
    """Tell the quorum of a change by its own tool; raise ClusterError if it refuses."""
    kafka_tools.run(node, _QUORUM_TOOL, *arguments)


def await_observer(cluster: KafkaCluster, controller: int) -> None:
    """Wait until a controller that does not vote yet has got the whole metadata log."""
    wait_for(
        lambda: _replicas(cluster),
        lambda seen: seen.get(controller) == _OBSERVER,
        within_s=_WITHIN_S,
        failure=_failure(f"observed by {controller}"),
        every_s=_EVERY_S,
    )


def await_leader(cluster: KafkaCluster) -> None:
    """Wait until a running member leads the quorum; at once if too few run for a majority."""
    running = _running(cluster)
    if len(running) * 2 <= len(cluster.topology.controllers):
        return

    def led(seen: Mapping[int, str]) -> bool:
        return any(seen.get(one) in ("leader", "standalone") for one in running)

    wait_for(
        lambda: members(cluster), led, within_s=_WITHIN_S, failure=_failure("led"), every_s=_EVERY_S
    )


def await_member(cluster: KafkaCluster, controller: int) -> None:
    """Wait until the controller leads the quorum or follows it, all caught up.

    At once if too few run for a majority.
    """
    if len(_running(cluster)) * 2 <= len(cluster.topology.controllers):
        return
    wait_for(
        lambda: members(cluster),
        lambda seen: seen.get(controller) in MEMBERS,
        within_s=_WITHIN_S,
        failure=_failure(f"joined by {controller}"),
        every_s=_EVERY_S,
    )


def _running(cluster: KafkaCluster) -> list[int]:
    return [
        one.node_id
        for one in cluster.topology.controllers
        if cluster.nodes[one.node_id].exit_status() is None
        and not cluster.nodes[one.node_id].paused()
    ]


def _failure(what: str) -> Any:
    def failure(seen: Mapping[int, str]) -> ClusterError:
        said = ", ".join(f"{one} is {state}" for one, state in seen.items()) or "nobody answers"
        return ClusterError(f"the quorum is not {what} after {_WITHIN_S:g} s: {said}")

    return failure


def _zookeepers(cluster: KafkaCluster) -> Mapping[int, str]:
    found = {}
    for controller in _running(cluster):
        result: Any = cluster.nodes[controller].container.exec_run(["bash", "-c", _SRVR])
        if mode := re.search(rb"Mode: (\w+)", result.output):
            found[controller] = mode[1].decode()
    return found
