"""Waits for what brokers report; a wait that times out raises ClusterError with the last report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ackproof.cluster import quorum
from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.state import ClusterState
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

BOOT_S = 90.0
#: How long a started broker may take until it is in sync.
RECOVERY_S = 90.0
#: Sessions time out after 9 s (KRaft) or 18 s (ZooKeeper) unless a scenario sets another time, and
#: a leader removes a follower from the ISR after 30 to 45 s.
FENCED_S = 90.0


def await_brokers(cluster: ClusterState) -> None:
    """Wait until every broker is registered and unfenced.

    Raises ClusterError with the last log lines of a node that has ended, or of a broker that did
    not register in time.
    """
    expected = frozenset(cluster.broker_ids())
    # A short timeout, so that a node that has ended is noticed between two requests.
    admin = Admin(cluster.bootstrap_servers, settings=cluster.client_settings, timeout_s=0.5)

    def registered() -> frozenset[int]:
        cluster.require_all_alive()
        return admin.brokers()

    def failure(brokers: frozenset[int]) -> ClusterError:
        missing = sorted(expected - brokers)
        node = cluster.nodes[missing[0]]
        return ClusterError(
            f"brokers {missing} did not register within {BOOT_S:g} s; last log lines of "
            f"{node.spec.name}:\n{node.log_tail()}"
        )

    wait_for(registered, expected.__eq__, within_s=BOOT_S, failure=failure)


def await_full_isr(
    cluster: ClusterState, partitions: Sequence[TopicPartition], *, within_s: float = RECOVERY_S
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


def below_full_isr(
    views: Mapping[TopicPartition, PartitionView], partitions: Sequence[TopicPartition]
) -> list[str]:
    """Describe those of the partitions that have no leader or no full ISR."""
    return [
        describe(partition, views.get(partition))
        for partition in partitions
        if partition not in views or not views[partition].full_isr
    ]


def _outdated(
    cluster: ClusterState,
    committed: Mapping[TopicPartition, PartitionView],
    partitions: Sequence[TopicPartition],
) -> list[int]:
    """Return the brokers that report other leaders or, in KRaft, smaller ISRs to clients.

    In KRaft a broker knows a change when it has fetched it from the metadata log. In ZooKeeper mode
    the controller sends leaders at once, and ISRs late.
    """

    def up_to_date(
        views: Mapping[TopicPartition, PartitionView], partition: TopicPartition
    ) -> bool:
        view = views.get(partition)
        return (
            view is not None
            and view.leader == committed[partition].leader
            and (view.full_isr or cluster.topology.zookeeper)
        )

    reports = {broker: cluster.partitions_known_to(broker) for broker in cluster.broker_ids()}
    return [
        broker
        for broker, views in reports.items()
        if not all(up_to_date(views, partition) for partition in partitions)
    ]


def await_fenced(cluster: ClusterState, broker: int, *, within_s: float = FENCED_S) -> None:
    """Wait until no other running broker lists this one; return at once without another."""
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


def await_out_of_isr(cluster: ClusterState, broker: int, *, within_s: float = FENCED_S) -> None:
    """Wait until no ISR of several members contains the broker.

    Without eligible leader replicas the last member of an ISR stays in it.
    """
    await_partitions(
        cluster,
        lambda view: broker not in view.isr or len(view.isr) == 1,
        within_s=within_s,
        problem=f"broker {broker} is still in an ISR",
    )


def in_sync(cluster: ClusterState, node: int) -> bool:
    """Whether the broker is unfenced and in the ISR of every partition that it replicates.

    The broker itself reports it: until its session times out (9 s), the others do not know of its
    death, and would report a broker as in sync that is still starting. The broker answers only
    after it has caught up with its own new registration (`BrokerServer.startup`).
    A controller is in sync when it leads the quorum or follows without lag.
    """
    if cluster.nodes[node].spec.role != "broker":
        return quorum.members(cluster).get(node) in quorum.MEMBERS
    admin = cluster.admin_of(node)
    if cluster.nodes[node].exit_status() is not None or node not in admin.brokers():
        return False
    views = admin.partitions()
    if cluster.topology.zookeeper:
        # The broker learns late of the ISRs that other leaders change, so the ISRs come from
        # ZooKeeper, which must report every partition that the broker knows.
        reported, views = views, cluster.partitions()
        if not reported.keys() <= views.keys():
            return False
    return all(node in view.isr for view in views.values() if node in view.replicas)


def await_in_sync(cluster: ClusterState, node: int, *, within_s: float = RECOVERY_S) -> None:
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
    cluster: ClusterState,
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


def describe(partition: TopicPartition, view: PartitionView | None) -> str:
    """Return a partition's state for an error message."""
    name = f"{partition[0]}-{partition[1]}"
    if view is None:
        return f"{name} is unknown to the brokers"
    return f"{name} (leader {view.leader}, ISR {list(view.isr)} of {list(view.replicas)})"
