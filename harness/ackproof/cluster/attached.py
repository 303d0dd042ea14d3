"""A cluster that is there already: its clients' side, its own topics, and listed containers.

Nothing but the scenario's topics is created, and nothing else removed. Faults reach a broker only
through a container that the scenario lists, or through its author's own commands. What only the
inside of a cluster knows (its metadata log, its brokers' logs, its replicas' files) is not
observed; leaders and ISR are polled instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from ackproof.cluster.admin import (
    Admin,
    PartitionView,
    TopicPartition,
    new_topic,
)
from ackproof.cluster.cluster import KafkaCluster
from ackproof.cluster.preflight import Admission
from ackproof.cluster.readiness import below_full_isr
from ackproof.cluster.topology import topic_settings
from ackproof.errors import AckproofError, ClusterError
from ackproof.scenario.attach import AttachSpec
from ackproof.waiting import wait_for
from ackproof_faults import CommandResult, FaultError
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.kafka_proxy import Link
from ackproof_faults.interfaces.operations import Operations

if TYPE_CHECKING:
    from confluent_kafka.admin import NewTopic
    from docker.models.containers import Container

    from ackproof.scenario.model import TopicSpec

_ISR_S = 90.0

NOT_OBSERVED = (
    "the metadata log (leaders and ISR were polled instead)",
    "the brokers' logs",
    "the replicas' files",
)
"""What a run on an attached cluster cannot see."""


class AttachedCluster:
    """What a run asks of a cluster and does to it, as far as its clients' side allows."""

    def __init__(
        self, attach: AttachSpec, settings: Mapping[str, str], admission: Admission
    ) -> None:
        self._attach = attach
        self._admission = admission
        self.client_settings = dict(settings)
        self.bootstrap_servers = attach.bootstrap
        self.admin = Admin(attach.bootstrap, settings=settings)
        self.since: datetime | None = None
        self._addresses = admission.addresses()
        self._created: list[str] = []
        #: The producers and consumers of the run, once there are any.
        self.run_clients: Clients | None = None

    # What a run asks and does.

    def bootstrap(self, listener: str) -> str:
        """Return where clients begin; there is one listener."""
        return self.bootstrap_servers

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR.

        Raises ClusterError if one is there already, or if we may not create, write, read and delete
        it; then it is deleted again.
        """
        for name, topic in topics.items():
            self.admin.create(_wanted(name, topic))
            self._created.append(name)
        places = [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
        self.await_full_isr(places)
        self._admission.require_operations(list(topics), ("READ", "WRITE", "DELETE"))

    def broker_settings(self) -> dict[int, dict[str, str]]:
        """Return each broker's settings; raise ClusterError if we may not ask."""
        return self._admission.broker_settings(self.broker_ids())

    def delete_topics(self) -> None:
        """Delete what `create_topics` created."""
        self.admin.delete_topics(self._created)
        self._created = []

    def await_full_isr(self, places: Sequence[TopicPartition], *, within_s: float = _ISR_S) -> None:
        """Wait until every given partition has a leader and a full ISR."""

        def failure(seen: Mapping[TopicPartition, PartitionView]) -> ClusterError:
            late = "; ".join(below_full_isr(seen, places)[:8])
            return ClusterError(f"not at full ISR after {within_s:g} s: {late}")

        wait_for(
            self.admin.partitions,
            lambda seen: not below_full_isr(seen, places),
            within_s=within_s,
            failure=failure,
        )

    # What faults ask and do (ackproof_faults.Cluster).

    def broker_ids(self) -> list[int]:
        """Return the ids of all brokers that were there in the beginning, ascending."""
        return sorted(self._addresses)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, None while it has none."""
        view = self.admin.partitions().get((topic, partition))
        return view.leader if view else None

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """Return the partition's replicas in assignment order."""
        view = self.admin.partitions().get((topic, partition))
        return view.replicas if view else ()

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, None if nobody can say now."""
        view = self.admin.partitions().get((topic, partition))
        return view.isr if view else None

    def controller_ids(self) -> list[int]:
        """Refuse: the controllers of an attached cluster are not known."""
        self._refuse()

    def active_controller(self) -> int | None:
        """Refuse: the controllers of an attached cluster are not known."""
        self._refuse()

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if nobody can say now."""
        return self.admin.log_end(topic, partition)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if none or nobody can say now."""
        return self.admin.committed(group, topic, partition)

    def log_has(self, broker: int, text: str, since: datetime) -> bool:
        """Refuse: an attached cluster's logs are not ours to read."""
        self._refuse()

    def link(self) -> Link:
        """Refuse: clients of an attached cluster are not led through a proxy."""
        self._refuse()

    def operations(self) -> Operations:
        """Refuse: an attached cluster is its operator's."""
        self._refuse()

    def clients(self) -> Clients:
        """Return the producers and consumers of the run; raise FaultError if there are none."""
        if self.run_clients is None:
            raise FaultError("no client of a run is there")
        return self.run_clients

    def in_sync(self, broker: int) -> bool:
        """Whether the broker itself says that it is listed, and in the ISR of all of our topics.

        The others do not notice its death at once.
        """
        itself = Admin(self._addresses[broker], settings=self.client_settings, timeout_s=1)
        if broker not in itself.brokers():
            return False
        return all(
            broker in view.isr
            for (topic, _), view in itself.partitions().items()
            if topic in self._created and broker in view.replicas
        )

    def kill(self, broker: int) -> None:
        """Send SIGKILL to the broker's container and wait until it is gone."""
        with _engine_errors():
            container = self._container(broker)
            container.kill(signal="SIGKILL")
            container.wait()

    def terminate(self, broker: int) -> None:
        """Send SIGTERM to the broker's container and wait until it is gone."""
        with _engine_errors():
            self._container(broker).stop(timeout=60)

    def start(self, broker: int) -> None:
        """Start the broker's container; a no-op if it runs."""
        with _engine_errors():
            self._container(broker).start()

    def exit_status(self, broker: int) -> int | None:
        """Return the exit status of the broker's container, None while it runs."""
        with _engine_errors():
            state: Mapping[str, Any] = self._container(broker).attrs["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def address(self, broker: int) -> str:
        """Refuse: an attached cluster's network is not ours."""
        self._refuse()

    def port(self, listener: str) -> int:
        """Refuse: an attached cluster's listeners are not known."""
        self._refuse()

    def await_in_sync(self, broker: int, *, within_s: float) -> None:
        """Refuse, for the same reason."""
        self._refuse()

    def client_listeners(self) -> Sequence[str]:
        """Refuse, for the same reason."""
        self._refuse()

    def run_beside(self, broker: int, script: str) -> CommandResult:
        """Refuse: nothing runs beside a broker that ackproof did not start."""
        self._refuse()

    def start_beside(self, broker: int, name: str, script: str) -> None:
        """Refuse, for the same reason."""
        self._refuse()

    def end_beside(self, broker: int, name: str) -> None:
        """Refuse, for the same reason."""
        self._refuse()

    def pause(self, broker: int) -> None:
        """Refuse: only the fault docker may touch a container, and it kills or stops."""
        self._refuse()

    def resume(self, broker: int) -> None:
        """Refuse, for the same reason."""
        self._refuse()

    def paused(self, broker: int) -> bool:
        """Refuse, for the same reason."""
        self._refuse()

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers a client's request."""
        settings = self.client_settings
        return bool(Admin(self._addresses[broker], settings=settings, timeout_s=1).brokers())

    def exhaust_memory(self, broker: int) -> None:
        """Refuse: the memory of a container that is not ours is not limited."""
        self._refuse()

    def out_of_memory(self, broker: int) -> bool:
        """Refuse, for the same reason."""
        self._refuse()

    def shift_clock(self, broker: int, by_s: float) -> None:
        """Refuse: the clock of a machine that is not ours is not set."""
        self._refuse()

    def log_directories(self, broker: int) -> Sequence[str]:
        """Refuse: disks of an attached cluster are not touched."""
        self._refuse()

    def run_at_disk(self, broker: int, script: str) -> CommandResult:
        """Refuse, for the same reason."""
        self._refuse()

    def read_file(self, broker: int, path: str) -> bytes:
        """Refuse, for the same reason."""
        self._refuse()

    def renew_identity(self, broker: int) -> None:
        """Refuse, for the same reason."""
        self._refuse()

    def await_logged(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        """Refuse: an attached cluster's logs are not read."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise FaultError("this fault needs a cluster that ackproof started")

    def _container(self, broker: int) -> Container:
        from ackproof.containers.engine import connect

        name = self._attach.containers.get(broker)
        if name is None:
            raise FaultError(
                f"broker {broker} has no container in cluster.attach.containers: it is not touched"
            )
        return connect().containers.get(name)


#: What a run may be on.
AnyCluster = KafkaCluster | AttachedCluster


@contextlib.contextmanager
def attached(attach: AttachSpec, topics: Mapping[str, TopicSpec]) -> Iterator[AttachedCluster]:
    """Yield the cluster once it is clear that it lets us do what we need; until then, only ask.

    In the end the topics that the run created are deleted.
    Raises ClusterError for a cluster that is unreachable, refuses us, does not let us create the
    topics, or has one of them already; ScenarioError for a variable that is not set.
    """
    settings = attach.client_settings()
    admission = Admission(attach.bootstrap, settings)
    if taken := sorted(set(topics) & admission.topics()):
        raise ClusterError(
            f"{', '.join(taken)} is there already at {attach.bootstrap}: ackproof uses topics that "
            "it created itself, and deletes them in the end",
            hint="Choose another topic_prefix, or delete it yourself if an earlier run was killed.",
        )
    admission.require_creatable([_wanted(name, topic) for name, topic in topics.items()])
    cluster = AttachedCluster(attach, settings, admission)
    try:
        yield cluster
    finally:
        cluster.delete_topics()


def _wanted(name: str, topic: TopicSpec) -> NewTopic:
    return new_topic(
        name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        settings=topic_settings(topic.settings),
        assignment=topic.assignment,
    )


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (AckproofError, DockerException, RequestException) as error:
        raise FaultError(str(error)) from error
