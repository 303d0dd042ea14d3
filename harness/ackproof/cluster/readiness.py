"""Waiting until brokers show what has happened; a wait that gives up says what it saw last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.kafka_tools import running
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster

BOOT_S = 90.0
BACK_S = 90.0
#: Sessions time out after 9 s (KRaft) or 18 s (ZooKeeper) unless a scenario says otherwise, and a
#: leader drops a follower from the ISR after 30 to 45 s.
NOTICED_S = 90.0


def await_brokers(cluster: KafkaCluster) -> None:
    """Wait until every broker is registered and unfenced.

    Raises ClusterError with the last log lines of a node that died, or of one that did not
    come up in time.
    """
    wanted = frozenset(cluster.broker_ids())
    # A death is noticed in between.
    starting = Admin(cluster.bootstrap_servers, settings=cluster.client_settings, timeout_s=0.5)

    def look() -> frozenset[int]:
        for node in cluster.nodes.values():
            cluster.require_alive(node.spec.node_id)
        return starting.brokers()

    def failure(seen: frozenset[int]) -> ClusterError:
        missing = sorted(wanted - seen)
        node = cluster.nodes[missing[0]]
        return ClusterError(
            f"brokers {missing} did not register within {BOOT_S:g} s; last lines of "
            f"{node.spec.name}:\n{node.log_tail()}"
        )

    wait_for(look, wanted.__eq__, within_s=BOOT_S, failure=failure)


def await_full_isr(
    cluster: KafkaCluster, places: Sequence[TopicPartition], *, within_s: float = BACK_S
) -> None:
    """Wait until every given partition has a leader and a full ISR, and every broker says so.

    Raises ClusterError, early if a node has died.
    """

    def look() -> Mapping[TopicPartition, PartitionView]:
        for node in cluster.nodes.values():
            cluster.require_alive(node.spec.node_id)
        return cluster.partitions()

    def failure(seen: Mapping[TopicPartition, PartitionView]) -> ClusterError:
        problems = below_full_isr(seen, places) or [
            f"broker {broker} has not heard of it" for broker in _unaware(cluster, seen, places)
        ]
        return ClusterError(
            f"not at full ISR after {within_s:g} s: {'; '.join(problems[:8])}",
            hint="The brokers' logs in the run directory say why a replica stays away.",
        )

    wait_for(
        look,
        lambda seen: not below_full_isr(seen, places) and not _unaware(cluster, seen, places),
        within_s=within_s,
        failure=failure,
    )


def below_full_isr(
    seen: Mapping[TopicPartition, PartitionView], places: Sequence[TopicPartition]
) -> list[str]:
    """Return, in words, those of the partitions that have no leader or no full ISR."""
    return [
        describe(place, seen.get(place))
        for place in places
        if place not in seen or not seen[place].full_isr
    ]


def _unaware(
    cluster: KafkaCluster,
    committed: Mapping[TopicPartition, PartitionView],
    places: Sequence[TopicPartition],
) -> list[int]:
    """Return the brokers that tell clients of other leaders or, in KRaft, of smaller ISRs.

    Each learns of a change only when it has read so far in the metadata log. In ZooKeeper mode
    brokers are told of leaders at once, and of ISRs late.
    """

    def tells(told: Mapping[TopicPartition, PartitionView], place: TopicPartition) -> bool:
        view = told.get(place)
        return (
            view is not None
            and view.leader == committed[place].leader
            and (view.full_isr or cluster.topology.zookeeper)
        )

    told_by = {broker: cluster.told_by(broker) for broker in cluster.broker_ids()}
    return [
        broker
        for broker, told in told_by.items()
        if not all(tells(told, place) for place in places)
    ]


def await_fenced(cluster: KafkaCluster, broker: int, *, within_s: float = NOTICED_S) -> None:
    """Wait until no other running broker lists this one; at once if there is no other."""
    others = [other for other in running(cluster) if other != broker]

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


def await_out_of_isr(cluster: KafkaCluster, broker: int, *, within_s: float = NOTICED_S) -> None:
    """Wait until the broker is in no ISR, but for those in which it is alone.

    Without eligible leader replicas the last member of an ISR stays in it.
    """

    def inside(view: PartitionView) -> bool:
        return broker in view.isr and len(view.isr) > 1

    await_partitions(
        cluster,
        lambda view: not inside(view),
        within_s=within_s,
        problem=f"broker {broker} is still in an ISR",
    )


def await_in_sync(cluster: KafkaCluster, broker: int, *, within_s: float = BACK_S) -> None:
    """Wait until the broker is unfenced and in the ISR of every partition that it replicates.

    Raises ClusterError early, with its last log lines, if its process ends.
    """

    def look() -> bool:
        cluster.require_alive(broker)
        return cluster.in_sync(broker)

    def failure(_: bool) -> ClusterError:
        listed = sorted(cluster.listed_by(broker))
        absent = [
            describe(place, view)
            for place, view in cluster.partitions().items()
            if broker in view.replicas and broker not in view.isr
        ]
        return ClusterError(
            f"broker {broker} is not back after {within_s:g} s: it lists brokers {listed}; "
            f"not in the ISR of {'; '.join(absent[:5]) or 'no partition'}",
            hint="Its log in the run directory says why.",
        )

    wait_for(look, bool, within_s=within_s, failure=failure)


def await_partitions(
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
            describe(place, seen.get(place))
            for place in places
            if place not in seen
            or not good(seen[place])
            or (wanted is not None and set(seen[place].replicas) != set(wanted[place]))
        ]

    def failure(seen: Mapping[TopicPartition, PartitionView]) -> ClusterError:
        return ClusterError(f"{problem} after {within_s:g} s: {'; '.join(late(seen)[:8])}")

    wait_for(views, lambda seen: bool(seen) and not late(seen), within_s=within_s, failure=failure)


def describe(place: TopicPartition, view: PartitionView | None) -> str:
    """Return a partition in words."""
    if view is None:
        return f"{place[0]}-{place[1]} is unknown to the brokers"
    return (
        f"{place[0]}-{place[1]} (leader {view.leader}, ISR {list(view.isr)} of "
        f"{list(view.replicas)})"
    )
