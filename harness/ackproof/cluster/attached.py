"""The cluster of a run that ackproof did not start: metadata, the run's topics, listed containers.

Only the scenario's topics are created and deleted. Faults use a broker's container, if the scenario
lists it, or the commands in the scenario. The metadata log, the brokers' logs and the replicas'
files are not observed; leaders and ISRs are polled instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docker.models.containers import Container

from ackproof.cluster.admin import (
    Admin,
    PartitionView,
    RunningCluster,
    new_topics,
    partitions_of,
)
from ackproof.cluster.container_node import ContainerNode
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.hanging_transactions import HangingTransactions
from ackproof.cluster.interfaces import NodeNetworks, NodeProcesses, PartitionMetadata
from ackproof.cluster.preflight import Preflight
from ackproof.cluster.share_groups import ShareGroups
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.observation.metadata_log import MetadataLog, PartitionState
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.proxy.listed_ends import ListedEnd
from ackproof.runs.directory import Clock
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import Repeating, wait_for
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import Cluster, Metadata, Placement, TopicPartition

NOT_OBSERVED = (
    "the metadata log (leaders and ISR were polled instead)",
    "the brokers' logs",
    "the replicas' files",
)
"""The observations that a run on an attached cluster lacks."""
_POLL_S = 0.1

#: In place of offsets and epochs that only the metadata log contains.
UNKNOWN = -1


class AttachedCluster(RunningCluster):
    """An attached cluster, as a run uses it. `interfaces` are for faults."""

    hanging_transactions: HangingTransactions | None = None
    share_groups: ShareGroups | None = None

    def __init__(
        self, attach: AttachSpec, settings: Mapping[str, str], preflight: Preflight
    ) -> None:
        super().__init__(attach.bootstrap, settings)
        self._preflight = preflight
        self._addresses = preflight.addresses()
        self._created: list[str] = []
        self.interfaces = Cluster(
            metadata=_AttachedMetadata(self.admin, self._addresses, settings, self._created)
        )
        self._poll: LeaderPoll | None = None
        self._cleanup = contextlib.ExitStack()
        if attach.containers:
            nodes = ListedNodes(attach.containers)
            processes = NodeProcesses(nodes)
            self.interfaces.offer("processes", processes)
            self.interfaces.offer("freezer", processes)
            if attach.listeners:
                self.interfaces.offer("network", listed_networks(nodes, attach.listeners))

    def bootstrap(self, listener: str) -> str:
        """Return `bootstrap.servers`; an attached cluster has one listener for ackproof."""
        return self.bootstrap_servers

    def broker_ids(self) -> list[int]:
        """Return the ids of the brokers that were registered when the run began, ascending."""
        return sorted(self._addresses)

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR.

        Raises ClusterError if a topic exists, or if the client may not create, write, read and
        delete it.
        """
        for name, topic in zip(topics, new_topics(topics), strict=True):
            self.admin.create_topic(topic)
            self._created.append(name)
        self.await_full_isr(partitions_of(topics))
        self._preflight.require_operations(list(topics), ("READ", "WRITE", "DELETE"))
        self._poll = LeaderPoll(self.admin.partitions, partitions_of(topics))
        self._cleanup.enter_context(self._poll)

    def broker_settings(self) -> dict[int, dict[str, str]]:
        return self._preflight.broker_settings(self.broker_ids())

    def clocks(self, now: Callable[[], datetime]) -> list[Clock]:
        """Return an empty list: clocks of attached nodes are not observed."""
        return []

    def early_high_watermarks(self) -> list[EarlyHighWatermark]:
        """Return an empty list: there is no proxy between attached brokers."""
        return []

    def listed_ends(self) -> list[ListedEnd]:
        """Return an empty list: there is no proxy before attached brokers."""
        return []

    def take_metadata_log(self, run_dir: Path) -> MetadataLog:
        """Return the partitions' states as they were polled; brokers are not observed."""
        states = self._poll.states if self._poll else []
        return MetadataLog(partitions=tuple(states), brokers=())

    def take_replica_logs(self, topics: Sequence[str], run_dir: Path) -> None:
        """Return None: the replicas of attached brokers are not observed."""

    def release(self) -> None:
        """End polling, and delete the topics that `create_topics` created."""
        self._cleanup.close()
        self.admin.delete_topics(self._created)
        self._created.clear()


@raises_fault_errors
class _AttachedMetadata(PartitionMetadata, Metadata):
    """The metadata that brokers return to clients; `topics` are the run's own topics."""

    def __init__(
        self,
        admin: Admin,
        addresses: Mapping[int, str],
        settings: Mapping[str, str],
        topics: Sequence[str],
    ) -> None:
        super().__init__(self._views, admin)
        self._addresses = addresses
        self._settings = settings
        self._topics = topics
        self._own: dict[int, Admin] = {}

    def _views(self) -> Mapping[TopicPartition, PartitionView]:
        """Return the partitions about which all brokers agree that are listed and answer.

        The metadata of a broker may be late, so others are unknown: no condition on them holds.
        """
        listed = [broker for broker in sorted(self._admin.brokers()) if broker in self._addresses]
        for broker in listed:
            self._own.setdefault(broker, self._admin_of(broker))
        return agreed([self._own[broker].partitions() for broker in listed])

    def broker_ids(self) -> Sequence[int]:
        return sorted(self._addresses)

    def answers(self, broker: int) -> bool:
        return bool(self._admin_of(broker).brokers())

    def in_sync(self, node: int) -> bool:
        # The broker itself is asked: the others notice its death late.
        admin = self._admin_of(node)
        return node in admin.brokers() and all(
            node in view.isr
            for (topic, _), view in admin.partitions().items()
            if topic in self._topics and node in view.replicas
        )

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        wait_for(
            lambda: self.in_sync(node),
            bool,
            within_s=within_s,
            failure=lambda _: ClusterError(f"broker {node} is not in sync after {within_s:g} s"),
        )

    def _admin_of(self, broker: int) -> Admin:
        return Admin(self._addresses[broker], settings=self._settings, timeout_s=1)


def agreed(
    answers: Sequence[Mapping[TopicPartition, PartitionView]],
) -> Mapping[TopicPartition, PartitionView]:
    """Return the partitions that are equal in all answers, apart from the order of their ISR.

    An empty answer is that of a broker that does not answer.
    """
    given = [answer for answer in answers if answer]
    return {
        key: view
        for key, view in (given[0].items() if given else ())
        if all(key in other and _same(view, other[key]) for other in given[1:])
    }


def _same(one: PartitionView, other: PartitionView) -> bool:
    return (one.leader, one.replicas, set(one.isr)) == (
        other.leader,
        other.replicas,
        set(other.isr),
    )


class LeaderPoll(Repeating):
    """Polls `look` while its context is open, and collects the changes as `states`.

    A partition that `look` does not return gets no state. A change that is reverted between two
    polls is not observed. A state's time is that of the poll.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[TopicPartition, Placement]],
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(every_s=_POLL_S, name="leader poll")
        self._look = look
        self._partitions = partitions
        self._last: dict[TopicPartition, Placement] = {}
        self.states: list[PartitionState] = []

    def turn(self) -> None:
        views, at = self._look(), datetime.now(UTC)
        for key in self._partitions:
            view = views.get(key)
            if view is not None and view != self._last.get(key):
                self._last[key] = view
                self.states.append(_state(key, view, at))


def _state(key: TopicPartition, view: Placement, at: datetime) -> PartitionState:
    topic, partition = key
    return PartitionState(
        at=at,
        metadata_offset=UNKNOWN,
        topic=topic,
        partition=partition,
        leader=UNKNOWN if view.leader is None else view.leader,
        leader_epoch=UNKNOWN,
        partition_epoch=UNKNOWN,
        replicas=view.replicas,
        isr=view.isr,
        elr=(),
    )


@dataclass(frozen=True)
class ListedNode(ContainerNode):
    listed_name: str

    @property
    def name(self) -> str:
        return self.listed_name

    @property
    def container(self) -> Container:
        return connect().containers.get(self.name)

    @property
    def address(self) -> str:
        networks = self.container.attrs["NetworkSettings"]["Networks"]
        for network in networks.values():
            if network["IPAddress"]:
                return str(network["IPAddress"])
        raise FaultError(f"the container {self.name} has no address of its own")


class ListedNodes(dict[int, ListedNode]):
    """The nodes of the listed containers; `containers` maps broker ids to names."""

    def __init__(self, containers: Mapping[int, str]) -> None:
        super().__init__({broker: ListedNode(name) for broker, name in containers.items()})

    def __missing__(self, broker: int) -> ListedNode:
        raise FaultError(
            f"broker {broker} has no container in cluster.attach.containers: list it there, or "
            "name another target"
        )


def listed_networks(nodes: Mapping[int, ListedNode], ports: Mapping[str, int]) -> NodeNetworks:
    """Return the network namespaces of the containers; this process owns their sidecars."""
    return NodeNetworks(
        nodes=nodes,
        ports=ports,
        sidecar=images.ensure_sidecar,
        run_id=f"attached-{os.getpid()}",
    )


@contextlib.contextmanager
def attached(attach: AttachSpec, topics: Mapping[str, TopicSpec]) -> Iterator[AttachedCluster]:
    """Check that the cluster allows the run, yield it, and delete the run's topics at the end.

    Raises ClusterError for a cluster that does not answer, refuses the client, does not let it
    create the topics, or has one of them; ScenarioError for an environment variable that is not
    set. The checks change nothing on the cluster.
    """
    settings = attach.client_settings()
    preflight = Preflight(attach.bootstrap, settings)
    if existing := sorted(set(topics) & preflight.topics()):
        raise ClusterError(
            f"{', '.join(existing)} exists already at {attach.bootstrap}: ackproof uses only "
            "topics that it created itself, and deletes them at the end",
            hint="Choose another topic_prefix, or delete the topic if a killed run left it.",
        )
    preflight.require_creatable(new_topics(topics))
    cluster = AttachedCluster(attach, settings, preflight)
    try:
        yield cluster
    finally:
        cluster.release()
