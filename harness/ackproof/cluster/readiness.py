"""The states that brokers and controllers report, and waits for them.

A wait that times out raises ClusterError with the last report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ackproof.cluster.admin import Admin, PartitionView, below_full_isr, describe
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.times import RECOVERY_S
from ackproof.cluster.topology import ZOOKEEPER_PORT, ZooKeeper
from ackproof.containers import commands
from ackproof.containers.kafka_tools import TOOLS
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import TopicPartition

BOOT_S = 90.0
#: Sessions time out after 9 s (KRaft) or 18 s (ZooKeeper) unless a scenario sets another time, and
#: a leader removes a follower from the ISR after 30 to 45 s.
FENCED_S = 90.0

_QUORUM_S = 60.0

_SRVR = f"exec 3<>/dev/tcp/localhost/{ZOOKEEPER_PORT} && echo srvr >&3 && cat <&3"

#: The states of a member of the quorum, in lower case.
MEMBERS = ("leader", "follower", "standalone")
_OBSERVER = "observer"


def await_brokers(cluster: ClusterNodes) -> None:
    """Wait until every broker is registered and unfenced.

    Raises ClusterError with the last log lines of a node that has ended, or of a broker that did
    not register in time.
    """
    expected = frozenset(cluster.broker_ids())
    # With a short timeout, so that a node's end is noticed between two requests.
    admin = Admin(cluster.bootstrap_servers, settings=cluster.client_settings, timeout_s=0.5)

    def registered() -> frozenset[int]:
        cluster.require_all_alive()
        return admin.brokers()

    def failure(brokers: frozenset[int]) -> ClusterError:
        missing = sorted(expected - brokers)
        node = cluster.nodes[missing[0]]
        return ClusterError(
            f"brokers {missing} did not register within {BOOT_S:g} s; last log lines of "
            f"{node.name}:\n{node.log_tail()}"
        )

    wait_for(registered, expected.__eq__, within_s=BOOT_S, failure=failure)


def await_full_isr(
    cluster: ClusterNodes, partitions: Sequence[TopicPartition], *, within_s: float = RECOVERY_S
) -> None:
    """Wait until every broker reports a leader and a full ISR for each of these partitions.

    Raises ClusterError, early if a node has ended.
    """

    def committed() -> Mapping[TopicPartition, PartitionView]:
        cluster.require_all_alive()
        return cluster.partitions()

    def failure(views: Mapping[TopicPartition, PartitionView]) -> ClusterError:
        problems = below_full_isr(views, partitions) or [
            f"the metadata of broker {broker} is not up to date"
            for broker in _outdated(cluster, views, partitions)
        ]
        return ClusterError(
            f"not at full ISR after {within_s:g} s: {'; '.join(problems[:8])}",
            hint="The brokers' logs in the run directory may say why a replica is not in sync.",
        )

    wait_for(
        committed,
        lambda views: (
            not below_full_isr(views, partitions) and not _outdated(cluster, views, partitions)
        ),
        within_s=within_s,
        failure=failure,
    )


def _outdated(
    cluster: ClusterNodes,
    committed: Mapping[TopicPartition, PartitionView],
    partitions: Sequence[TopicPartition],
) -> list[int]:
    """Return the brokers that report other leaders or, in KRaft, smaller ISRs to clients.

    In KRaft a broker fetches every change from the metadata log. In ZooKeeper mode the controller
    sends leaders at once, and ISRs late.
    """
    isrs_are_current = cluster.topology.metadata.tells_brokers_isrs

    def up_to_date(
        views: Mapping[TopicPartition, PartitionView], partition: TopicPartition
    ) -> bool:
        view = views.get(partition)
        return (
            view is not None
            and view.leader == committed[partition].leader
            and (view.full_isr or not isrs_are_current)
        )

    reports = {broker: cluster.partitions_known_to(broker) for broker in cluster.broker_ids()}
    return [
        broker
        for broker, views in reports.items()
        if not all(up_to_date(views, partition) for partition in partitions)
    ]


def await_fenced(cluster: ClusterNodes, broker: int, *, within_s: float = FENCED_S) -> None:
    """Wait until no other running broker lists this broker."""
    others = [other for other in cluster.running_brokers() if other != broker]

    def listed_brokers() -> Mapping[int, frozenset[int]]:
        return {other: cluster.brokers_known_to(other) for other in others}

    def fenced(lists: Mapping[int, frozenset[int]]) -> bool:
        return all(listed and broker not in listed for listed in lists.values())

    def failure(lists: Mapping[int, frozenset[int]]) -> ClusterError:
        last = "; ".join(
            f"broker {other} lists {sorted(listed) or 'no broker'}"
            for other, listed in lists.items()
        )
        return ClusterError(f"broker {broker} is not fenced after {within_s:g} s: {last}")

    wait_for(listed_brokers, fenced, within_s=within_s, failure=failure)


def await_out_of_isr(cluster: ClusterNodes, broker: int, *, within_s: float = FENCED_S) -> None:
    """Wait until no ISR of several members contains the broker.

    Without eligible leader replicas the last member of an ISR stays in it.
    """
    await_partitions(
        cluster,
        lambda view: broker not in view.isr or len(view.isr) == 1,
        within_s=within_s,
        problem=f"broker {broker} is still in an ISR",
    )


def in_sync(cluster: ClusterNodes, node: int) -> bool:
    """Whether the broker is unfenced and in the ISR of every partition that it replicates.

    The request goes to the broker itself: until its session times out (9 s), the others do not know
    of its death, and would report a starting broker as in sync. A broker answers only after it has
    caught up with its own registration (`BrokerServer.startup`). A controller is in sync when it
    leads the quorum or follows without lag.
    """
    if cluster.nodes[node].spec.role != "broker":
        return members(cluster).get(node) in MEMBERS
    admin = cluster.admin_of(node)
    if cluster.nodes[node].exit_status() is not None or node not in admin.brokers():
        return False
    views = admin.partitions()
    if not cluster.topology.metadata.tells_brokers_isrs:
        # The broker learns late of the ISRs that other leaders change, so the committed ISRs are
        # used, which must include every partition that the broker knows.
        reported, views = views, cluster.partitions()
        if not reported.keys() <= views.keys():
            return False
    return all(node in view.isr for view in views.values() if node in view.replicas)


def await_in_sync(cluster: ClusterNodes, node: int, *, within_s: float = RECOVERY_S) -> None:
    """Wait until the node is in sync.

    Raises ClusterError, early with its last log lines if its process ends.
    """

    def look() -> bool:
        cluster.require_alive(node)
        return in_sync(cluster, node)

    def failure(_: bool) -> ClusterError:
        listed = sorted(cluster.brokers_known_to(node))
        absent = [
            describe(partition, view)
            for partition, view in cluster.partitions().items()
            if node in view.replicas and node not in view.isr
        ]
        return ClusterError(
            f"broker {node} is not in sync after {within_s:g} s: it lists brokers {listed}; "
            f"not in the ISR of {'; '.join(absent[:5]) or 'no partition'}",
            hint="Its log in the run directory may say why.",
        )

    wait_for(look, bool, within_s=within_s, failure=failure)


def await_partitions(
    cluster: ClusterNodes,
    condition: Callable[[PartitionView], bool],
    *,
    within_s: float,
    problem: str,
    replicas: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> None:
    """Wait until the condition holds for every partition, or for those of `replicas`.

    With `replicas`, these partitions must also have exactly these replicas.
    """

    def late(views: Mapping[TopicPartition, PartitionView]) -> list[str]:
        return [
            describe(partition, views.get(partition))
            for partition in (views if replicas is None else replicas)
            if partition not in views
            or not condition(views[partition])
            or (replicas is not None and set(views[partition].replicas) != set(replicas[partition]))
        ]

    def failure(views: Mapping[TopicPartition, PartitionView]) -> ClusterError:
        return ClusterError(f"{problem} after {within_s:g} s: {'; '.join(late(views)[:8])}")

    wait_for(
        cluster.partitions,
        lambda views: bool(views) and not late(views),
        within_s=within_s,
        failure=failure,
    )


def members(cluster: ClusterNodes) -> Mapping[int, str]:
    """Return the state of each running member: leader, follower, lagging or standalone.

    Empty while the states are unknown. A single ZooKeeper node is `standalone`.
    """
    if isinstance(cluster.topology.metadata, ZooKeeper):
        return _zookeeper_members(cluster)
    running = cluster.running_controllers()
    return {node: state for node, state in _replicas(cluster).items() if node in running}


def voters(cluster: ClusterNodes) -> list[int]:
    """Return the leader of the quorum and the followers without lag, by a broker's metadata."""
    return sorted(node for node, state in _replicas(cluster).items() if state in MEMBERS)


def quorum_leader(cluster: ClusterNodes) -> int | None:
    """Return the leader of the quorum; None if it has no leader or the leader is unknown."""
    return next((node for node, state in members(cluster).items() if state == "leader"), None)


def _replicas(cluster: ClusterNodes) -> Mapping[int, str]:
    """Return the state of every replica of the metadata log, brokers included."""
    for broker in cluster.broker_ids():
        node = cluster.nodes[broker]
        if not node.running():
            continue
        try:
            output = cluster.run_kafka_tool(
                TOOLS["kafka-metadata-quorum"], "describe", "--replication", at=node
            )
        except ClusterError:
            continue
        return parse_replication(output)
    return {}


def parse_replication(replication: str) -> Mapping[int, str]:
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


def await_observer(cluster: ClusterNodes, controller: int) -> None:
    """Wait until a controller that is not a voter yet has fetched the whole metadata log."""
    _await_quorum(
        lambda: _replicas(cluster),
        lambda states: states.get(controller) == _OBSERVER,
        f"controller {controller} is not an observer without lag",
    )


def await_quorum_leader(cluster: ClusterNodes) -> None:
    """Wait until a running member leads the quorum; return at once without a majority."""
    running = cluster.running_controllers()
    if _majority_runs(cluster):
        _await_quorum(
            lambda: members(cluster),
            lambda states: any(states.get(node) in ("leader", "standalone") for node in running),
            "the quorum has no leader",
        )


def await_member(cluster: ClusterNodes, controller: int) -> None:
    """Wait until the controller leads the quorum or follows it without lag.

    Return at once without a majority.
    """
    if _majority_runs(cluster):
        _await_quorum(
            lambda: members(cluster),
            lambda states: states.get(controller) in MEMBERS,
            f"controller {controller} neither leads nor follows the quorum",
        )


def _majority_runs(cluster: ClusterNodes) -> bool:
    return len(cluster.running_controllers()) * 2 > len(cluster.topology.controllers)


def _await_quorum(
    look: Callable[[], Mapping[int, str]],
    until: Callable[[Mapping[int, str]], bool],
    problem: str,
) -> None:
    def failure(states: Mapping[int, str]) -> ClusterError:
        last = ", ".join(f"{node} is {state}" for node, state in states.items()) or "no answer"
        return ClusterError(f"{problem} after {_QUORUM_S:g} s: {last}")

    wait_for(look, until, within_s=_QUORUM_S, failure=failure, every_s=0.3)


def _zookeeper_members(cluster: ClusterNodes) -> Mapping[int, str]:
    states = {}
    for node in cluster.running_controllers():
        done = commands.run(cluster.nodes[node].container, ["bash", "-c", _SRVR])
        if mode := re.search(rb"Mode: (\w+)", done.stdout):
            states[node] = mode[1].decode()
    return states
