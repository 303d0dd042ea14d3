"""The metadata quorum (KRaft) or ZooKeeper ensemble: its leader and its members."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ackproof.cluster import kafka_tools
from ackproof.cluster.state import ClusterState
from ackproof.cluster.zookeeper import CLIENT_PORT
from ackproof.containers import commands
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

_WITHIN_S = 60.0
_EVERY_S = 0.3

TOOL = (
    "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka.admin.MetadataQuorumCommand",
)
_SRVR = f"exec 3<>/dev/tcp/localhost/{CLIENT_PORT} && echo srvr >&3 && cat <&3"

#: The states of a member, in lower case.
MEMBERS = ("leader", "follower", "standalone")
_OBSERVER = "observer"


def members(cluster: ClusterState) -> Mapping[int, str]:
    """Return the state of each running member: leader, follower, lagging or standalone.

    Empty while the states are unknown. A single ZooKeeper node is `standalone`.
    """
    if cluster.topology.zookeeper:
        return _zookeeper_members(cluster)
    running = cluster.running_controllers()
    return {node: state for node, state in _replicas(cluster).items() if node in running}


def voters(cluster: ClusterState) -> list[int]:
    """Return the leader of the quorum and the followers without lag, by a broker's metadata."""
    return sorted(node for node, state in _replicas(cluster).items() if state in MEMBERS)


def leader(cluster: ClusterState) -> int | None:
    """Return the leader of the quorum, None while there is none or it is unknown."""
    return next((node for node, state in members(cluster).items() if state == "leader"), None)


def _replicas(cluster: ClusterState) -> Mapping[int, str]:
    """Return the state of every replica of the metadata log, brokers included."""
    for broker in cluster.broker_ids():
        node = cluster.nodes[broker]
        if not node.running():
            continue
        bootstrap = ("--bootstrap-server", kafka_tools.internal_address(cluster, node))
        try:
            output = kafka_tools.run(node, TOOL, *bootstrap, "describe", "--replication")
        except ClusterError:
            continue
        return parse(output)
    return {}


def parse(replication: str) -> Mapping[int, str]:
    """Return the state of each replica: leader, follower, observer or lagging.

    A lagging replica has not fetched everything. `replication` is the output of
    `kafka-metadata-quorum describe --replication`.
    """
    header, *lines = [line.split("\t") for line in replication.strip().splitlines()] or [[]]
    names = [name.strip() for name in header]
    states: dict[int, str] = {}
    for line in lines:
        row = dict(zip(names, (value.strip() for value in line), strict=False))
        state = row.get("Status", "").lower()
        if state in (*MEMBERS, _OBSERVER):
            behind = state != "leader" and row.get("Lag") != "0"
            states[int(row["NodeId"])] = "lagging" if behind else state
    return states


def await_observer(cluster: ClusterState, controller: int) -> None:
    """Wait until a controller that is no voter yet has fetched the whole metadata log."""
    _await(
        lambda: _replicas(cluster),
        lambda states: states.get(controller) == _OBSERVER,
        f"controller {controller} is not an observer without lag",
    )


def await_leader(cluster: ClusterState) -> None:
    """Wait until a running member leads the quorum; return at once without a majority."""
    running = cluster.running_controllers()
    if _majority_runs(cluster):
        _await(
            lambda: members(cluster),
            lambda states: any(states.get(one) in ("leader", "standalone") for one in running),
            "the quorum has no leader",
        )


def await_member(cluster: ClusterState, controller: int) -> None:
    """Wait until the controller leads the quorum or follows it without lag.

    Return at once without a majority.
    """
    if _majority_runs(cluster):
        _await(
            lambda: members(cluster),
            lambda states: states.get(controller) in MEMBERS,
            f"controller {controller} neither leads nor follows the quorum",
        )


def _majority_runs(cluster: ClusterState) -> bool:
    return len(cluster.running_controllers()) * 2 > len(cluster.topology.controllers)


def _await(
    look: Callable[[], Mapping[int, str]],
    until: Callable[[Mapping[int, str]], bool],
    problem: str,
) -> None:
    def failure(states: Mapping[int, str]) -> ClusterError:
        last = ", ".join(f"{node} is {state}" for node, state in states.items()) or "no answer"
        return ClusterError(f"{problem} after {_WITHIN_S:g} s: {last}")

    wait_for(look, until, within_s=_WITHIN_S, failure=failure, every_s=_EVERY_S)


def _zookeeper_members(cluster: ClusterState) -> Mapping[int, str]:
    states = {}
    for node in cluster.running_controllers():
        done = commands.run(cluster.nodes[node].container, ["bash", "-c", _SRVR])
        if mode := re.search(rb"Mode: (\w+)", done.stdout):
            states[node] = mode[1].decode()
    return states
