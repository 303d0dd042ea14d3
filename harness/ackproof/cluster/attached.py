"""A cluster that ackproof did not start: its metadata, the run's topics, and listed containers.

Only the scenario's topics are created and deleted. Faults reach a broker through a container that
the scenario lists, or through its author's own commands. The metadata log, the brokers' logs and
the replicas' files are not observed; leaders and ISRs are polled instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ackproof.cluster.admin import Admin
from ackproof.cluster.cluster import KafkaCluster
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.listed_containers import ListedNetworks, ListedProcesses
from ackproof.cluster.metadata import PartitionMetadata
from ackproof.cluster.preflight import Preflight
from ackproof.cluster.running import RunningCluster
from ackproof.cluster.topics import new_topics, partitions_of
from ackproof.errors import ClusterError
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.model import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.interfaces.metadata import Metadata

NOT_OBSERVED = (
    "the metadata log (leaders and ISR were polled instead)",
    "the brokers' logs",
    "the replicas' files",
)
"""What a run on an attached cluster does not observe."""


class AttachedCluster(RunningCluster):
    """What a run uses of an attached cluster. `interfaces` are what faults use of it."""

    def __init__(
        self, attach: AttachSpec, settings: Mapping[str, str], preflight: Preflight
    ) -> None:
        super().__init__(attach.bootstrap, settings)
        self._preflight = preflight
        self.since: datetime | None = None
        self._addresses = preflight.addresses()
        self._created: list[str] = []
        self.interfaces = Cluster(
            metadata=_AttachedMetadata(self.admin, self._addresses, settings, self._created)
        )
        if attach.containers:
            processes = ListedProcesses(attach.containers)
            self.interfaces.offer("processes", processes)
            self.interfaces.offer("freezer", processes)
            if attach.listeners:
                networks = ListedNetworks(attach.containers, attach.listeners)
                self.interfaces.offer("network", networks)

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

    def broker_settings(self) -> dict[int, dict[str, str]]:
        """Return each broker's settings; raise ClusterError if the client may not read them."""
        return self._preflight.broker_settings(self.broker_ids())

    def delete_topics(self) -> None:
        """Delete the topics that `create_topics` created."""
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
        super().__init__(admin.partitions, admin)
        self._addresses = addresses
        self._settings = settings
        self._topics = topics

    def broker_ids(self) -> Sequence[int]:
        return sorted(self._addresses)

    def answers(self, broker: int) -> bool:
        return bool(self._admin_of(broker).brokers())

    def in_sync(self, node: int) -> bool:
        # The broker itself reports it: the others notice its death late.
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


#: The cluster of a run.
AnyCluster = KafkaCluster | AttachedCluster


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
        cluster.delete_topics()
