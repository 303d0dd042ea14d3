"""A real Kafka cluster in containers: booted, ready, faulted, and gone without a trace.

Ready means: every broker registered and unfenced, every topic created, every partition at full
ISR. `KafkaCluster` is also what faults act on (`ackproof_faults.Cluster`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ackproof.cluster import oom, quorum, readiness
from ackproof.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.cluster.formatting import bootstrap_checkpoint, new_id
from ackproof.cluster.laps import Laps
from ackproof.cluster.network import ClusterNetwork
from ackproof.cluster.node import KafkaNode
from ackproof.cluster.node_maker import NodeMaker
from ackproof.cluster.operations import ClusterOperations
from ackproof.cluster.ports import reserved
from ackproof.cluster.proxy_routes import routes
from ackproof.cluster.security import secured
from ackproof.cluster.topology import (
    VOLUME_DIR,
    Topology,
    arrange,
    ports_needed,
    topic_settings,
)
from ackproof.cluster.zookeeper import State
from ackproof.containers import fake_clock
from ackproof.containers import sidecar as beside
from ackproof.containers.engine import remove_run
from ackproof.errors import AckproofError, ClusterError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.proxy.proxy import LinkProxy
from ackproof_faults import CommandResult, FaultError
from ackproof_faults.interfaces.clients import Clients

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.scenario.cluster import ClusterSpec
    from ackproof.scenario.model import TopicSpec

P = ParamSpec("P")
R = TypeVar("R")


def _faults(method: Callable[Concatenate[KafkaCluster, P], R]) -> Callable[..., R]:
    """Turn what the engine or an image refuses into FaultError, which schedules understand."""

    @functools.wraps(method)
    def turned(self: KafkaCluster, *args: P.args, **kwargs: P.kwargs) -> R:
        from docker.errors import DockerException
        from requests import RequestException

        try:
            return method(self, *args, **kwargs)
        except (AckproofError, DockerException, RequestException) as error:
            raise FaultError(str(error)) from error

    return turned


class KafkaCluster:
    """Some brokers and who decides over their metadata, and what can be done to them."""

    def __init__(
        self,
        topology: Topology,
        nodes: Mapping[int, KafkaNode],
        *,
        client: DockerClient,
        run_id: str,
        sidecar: Callable[[], str],
        maker: NodeMaker,
        logs: Path | None = None,
        proxy: LinkProxy | None = None,
    ) -> None:
        self.topology = topology
        self.nodes = dict(nodes)
        self.maker = maker
        #: Where the log of a container that is removed before the end goes.
        self.logs = logs
        self.admin = Admin(topology.bootstrap_servers, settings=self.client_settings)
        #: Who says what leader and ISR are committed.
        self._committed = _state_of(topology) or self.admin
        self.client = client
        self._run_id = run_id
        self._sidecar = sidecar
        self._proxy = proxy
        self._operations = ClusterOperations(self)
        #: The producers and consumers of the run that it serves, once there are any.
        self.run_clients: Clients | None = None
        #: When it was given to this run, if it has served another before; what is older in its
        #: logs is not this run's.
        self.since: datetime | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin."""
        return self.topology.bootstrap_servers

    def bootstrap(self, listener: str) -> str:
        """Return where clients of this listener begin."""
        return self.topology.bootstrap(listener)

    @property
    def client_settings(self) -> dict[str, str]:
        """What clients need to be let in, by librdkafka's names; secret."""
        return self.topology.security.client_settings if self.topology.security else {}

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR."""
        for name, topic in topics.items():
            self.admin.create_topic(
                name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                settings=topic_settings(topic.settings),
                assignment=topic.assignment,
            )
        self.await_full_isr(
            [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
        )

    def await_full_isr(
        self, places: Sequence[TopicPartition], *, within_s: float = readiness.BACK_S
    ) -> None:
        """Wait until every given partition has a leader and a full ISR, and every broker says so.

        Raises ClusterError, early if a node has died.
        """
        readiness.await_full_isr(self, places, within_s=within_s)

    def require_alive(self, node_id: int) -> None:
        """Raise ClusterError, with the node's last log lines, if its process has ended."""
        node = self.nodes[node_id]
        status = node.exit_status()
        if status is not None:
            raise ClusterError(
                f"{node.spec.name} ended with exit status {status}; its last log lines:\n"
                f"{node.log_tail()}"
            )

    # What faults ask and do (ackproof_faults.Cluster).

    def broker_ids(self) -> list[int]:
        """Return the node ids of all brokers, ascending."""
        return [broker.node_id for broker in self.topology.brokers]

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, None while it has none."""
        view = self._committed.partitions().get((topic, partition))
        return view.leader if view else None

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """Return the partition's replicas in assignment order."""
        view = self._committed.partitions().get((topic, partition))
        return view.replicas if view else ()

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, None if nobody can say now."""
        view = self._committed.partitions().get((topic, partition))
        return view.isr if view else None

    def controller_ids(self) -> list[int]:
        """Return the node ids of all who vote over metadata, ascending."""
        return sorted(node.node_id for node in self.topology.controllers)

    @_faults
    def active_controller(self) -> int | None:
        """Return who leads the metadata quorum, None while nobody does or can say."""
        return quorum.leader(self)

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if nobody can say now."""
        return self.admin.log_end(topic, partition)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if none or nobody can say now."""
        return self.admin.committed(group, topic, partition)

    @_faults
    def log_has(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker logged a line with `text` since then."""
        return self.nodes[broker].log_has(text, since)

    def link(self) -> LinkProxy:
        """Return the proxy between clients and brokers; raise FaultError if there is none."""
        if self._proxy is None:
            raise FaultError("no listener leads through the link proxy: set cluster.proxied")
        return self._proxy

    def lead_through_proxy(self, node: int) -> None:
        """Have the node's proxied listeners reached through the proxy; a no-op without any."""
        for route in routes(self.nodes[node], self.topology):
            self.link().add_route(route)

    def operations(self) -> ClusterOperations:
        """Return what an operator does to the cluster."""
        return self._operations

    def clients(self) -> Clients:
        """Return the producers and consumers of the run; raise FaultError if there are none."""
        if self.run_clients is None:
            raise FaultError("no client of a run is there")
        return self.run_clients

    @_faults
    def kill(self, broker: int) -> None:
        """Send SIGKILL to the broker's process and wait until it is gone."""
        self.nodes[broker].kill()

    @_faults
    def terminate(self, broker: int) -> None:
        """Send SIGTERM (a controlled shutdown) and wait until the process is gone."""
        self.nodes[broker].terminate()

    @_faults
    def start(self, broker: int) -> None:
        """Start a stopped broker with its identity, data and address."""
        self.nodes[broker].start_again()

    def replace_node(self, node: KafkaNode) -> None:
        """Boot a node in the place of the stopped one of the same id, on the same disk."""
        self.nodes[node.spec.node_id].discard(self.logs)
        self.nodes[node.spec.node_id] = node
        node.boot()

    @_faults
    def pause(self, broker: int) -> None:
        """Freeze the broker's process: it neither answers nor closes a connection."""
        self.nodes[broker].pause()

    @_faults
    def resume(self, broker: int) -> None:
        """Let a frozen broker go on where it stood; a no-op if it is not frozen."""
        self.nodes[broker].resume()

    @_faults
    def wipe(self, broker: int) -> None:
        """Empty the disk of a stopped broker, as if it were replaced: it starts as a new one."""
        node = self.nodes[broker]
        if node.exit_status() is None:
            raise ClusterError(
                f"{node.spec.name} runs: its disk can only be emptied while it does not"
            )
        result = self.run_at_disk(broker, f"rm -rf {VOLUME_DIR}/*")
        if result.exit_status != 0:
            raise ClusterError(f"the disk of {node.spec.name} stays as it is: {result.output}")
        self.renew_identity(broker)

    @_faults
    def paused(self, broker: int) -> bool:
        """Whether the node's processes are frozen."""
        return self.nodes[broker].paused()

    @_faults
    def exhaust_memory(self, broker: int) -> None:
        """Have the kernel's out-of-memory killer end the node's process, and wait for that."""
        oom.exhaust(self.nodes[broker].container)

    @_faults
    def out_of_memory(self, broker: int) -> bool:
        """Whether the kernel ended the node's process because its memory was used up."""
        return self.nodes[broker].out_of_memory()

    @_faults
    def shift_clock(self, broker: int, by_s: float) -> None:
        """Have the broker's clock go so many seconds ahead of the machine's, or behind if < 0."""
        name = self.nodes[broker].spec.name
        if not self.maker.clock:
            raise ClusterError(f"{name} goes by the machine's clock: set cluster.clock: adjustable")
        result = self.run_at_disk(broker, fake_clock.setting(by_s))
        if result.exit_status != 0:
            raise ClusterError(f"the clock of {name} cannot be set: {result.output}")

    @_faults
    def exit_status(self, broker: int) -> int | None:
        """Return the exit status of the broker's process, None while it runs."""
        return self.nodes[broker].exit_status()

    def in_sync(self, broker: int) -> bool:
        """Whether the broker is unfenced and in the ISR of every partition it replicates.

        The broker itself is asked: until its session times out (9 s), the others know nothing of
        its death, and would call it unfenced and in sync while it is still starting. It answers
        only after it has caught up with its own new registration (`BrokerServer.startup`).
        A controller is in sync when it leads the quorum or follows without lag.
        """
        if self.nodes[broker].spec.role != "broker":
            return quorum.members(self).get(broker) in quorum.MEMBERS
        itself = self._admin_of(broker)
        if self.exit_status(broker) is not None or broker not in itself.brokers():
            return False
        partitions = itself.partitions()
        if self._committed is not self.admin:
            # In ZooKeeper mode a broker learns late what others did to an ISR.
            told, partitions = partitions, self._committed.partitions()
            if not told.keys() <= partitions.keys():
                return False
        return all(broker in view.isr for view in partitions.values() if broker in view.replicas)

    @_faults
    def await_in_sync(self, broker: int, *, within_s: float) -> None:
        """Wait until `in_sync` holds; raise FaultError after `within_s` or if it has ended."""
        readiness.await_in_sync(self, broker, within_s=within_s)

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers requests."""
        return bool(self.listed_by(broker))

    def listed_by(self, broker: int) -> frozenset[int]:
        """Return the unfenced brokers that this broker lists; empty if it does not answer."""
        return self._admin_of(broker).brokers()

    def told_by(self, broker: int) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition as this broker tells clients of it; empty if it does not answer.

        A broker that has not heard of the last change tells what was before.
        """
        return self._admin_of(broker).partitions()

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition's committed state; empty if nobody can say now."""
        return self._committed.partitions()

    def _admin_of(self, broker: int) -> Admin:
        """Return a fresh client that knows this broker only: its first question goes there."""
        port = self.nodes[broker].spec.external_port
        return Admin(f"127.0.0.1:{port}", settings=self.client_settings, timeout_s=1)

    def address(self, broker: int) -> str:
        """Return the broker's IP address on the cluster's network."""
        return self.nodes[broker].address

    def port(self, listener: str) -> int:
        """Return the port of a listener inside the network."""
        return self.topology.port(listener)

    def client_listeners(self) -> Sequence[str]:
        """Return the brokers' listeners for clients: EXTERNAL, and further ones."""
        return ("EXTERNAL", *self.topology.listeners)

    @_faults
    def run_beside(self, broker: int, script: str) -> CommandResult:
        """Run a bash script in the node's network namespace, with NET_ADMIN and nft."""
        return beside.run(
            self.client, self._sidecar(), script, run_id=self._run_id, **self._beside(broker)
        )

    @_faults
    def start_beside(self, broker: int, name: str, script: str) -> None:
        """Do as `run_beside` does, but go on until the script ends, or `end_beside(name)`."""
        beside.start(
            self.client,
            self._sidecar(),
            script,
            name=self._beside_name(broker, name),
            run_id=self._run_id,
            **self._beside(broker),
        )

    @_faults
    def end_beside(self, broker: int, name: str) -> None:
        """End what `start_beside` started; a no-op if it is gone."""
        beside.end(self.client, self._beside_name(broker, name))

    def _beside(self, node: int) -> Mapping[str, Any]:
        return {
            "network_mode": f"container:{self.nodes[node].container.id}",
            "cap_add": ["NET_ADMIN"],
        }

    def _beside_name(self, node: int, name: str) -> str:
        return f"ackproof-{self._run_id}-{self.nodes[node].spec.name}-{name}"

    def log_directories(self, broker: int) -> Sequence[str]:
        """Return the broker's log directories; metadata and identity lie in the first."""
        return self.nodes[broker].spec.directories

    @_faults
    def run_at_disk(self, broker: int, script: str) -> CommandResult:
        """Run a bash script where the broker's disk is mounted as it is there; it may be down."""
        volumes = {self.nodes[broker].volume: {"bind": VOLUME_DIR, "mode": "rw"}}
        return beside.run(
            self.client,
            self._sidecar(),
            script,
            run_id=self._run_id,
            volumes=volumes,
            network_mode="none",
        )

    @_faults
    def read_file(self, broker: int, path: str) -> bytes:
        """Return a file of the broker's disk; raise FaultError if there is none."""
        return self.nodes[broker].read_file(path)

    @_faults
    def renew_identity(self, broker: int) -> None:
        """Have each log directory that is empty formatted as a new one when the broker starts."""
        if not self.topology.zookeeper:
            self.nodes[broker].renew_identity(self.topology.cluster_id)

    @_faults
    def await_logged(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        """Wait until the broker has logged a line with `text`, and return it."""
        return self.nodes[broker].await_logged(text, since=since, within_s=within_s)


@contextlib.contextmanager
def booted(
    spec: ClusterSpec,
    *,
    client: DockerClient,
    image: str,
    run_id: str,
    sidecar: Callable[[], str],
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
    laps: Laps | None = None,
) -> Iterator[KafkaCluster]:
    """Boot a cluster and yield it once every broker is registered; remove it in the end.

    `image` runs the version `kafka`. `sidecar` returns the image with nft and bash; it is asked
    for when a fault first needs it. `logs` is the folder for logs of containers that are removed
    before the end. `laps` is told how long each phase took.
    Raises ClusterError if a node does not come up.
    """
    laps = laps or Laps()
    with contextlib.ExitStack() as cleanup:
        clock = fake_clock.library(client) if spec.clock == "adjustable" else b""
        ports = cleanup.enter_context(reserved(ports_needed(spec, kafka)))
        # By label, not by handle: an interrupt between the engine's doing and our knowing of it
        # leaves nothing behind, sidecars included.
        cleanup.callback(remove_run, client, run_id)
        security = secured(spec.security)
        network = ClusterNetwork(run_id)
        network.create()
        topology = arrange(
            spec,
            kafka,
            cluster_id=new_id(),
            ports=ports,
            security=security,
            gateway=network.gateway,
        )
        checkpoint = b""
        if not topology.zookeeper:
            scram = security.scram if security else ""
            checkpoint = bootstrap_checkpoint(
                client, image, spec.features, run_id=run_id, scram=scram
            )
        laps.lap("network and ports")
        maker = NodeMaker(
            image=image,
            run_id=run_id,
            checkpoint=checkpoint,
            network=network,
            more_ports=lambda count: cleanup.enter_context(reserved(count)),
            clock=clock,
        )
        nodes = {node.node_id: maker.make(node, topology) for node in topology.nodes}
        proxy = None
        if topology.proxied:
            proxy = LinkProxy()
            cleanup.enter_context(proxy.running())
            for node in nodes.values():
                for route in routes(node, topology):
                    proxy.add_route(route)
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            for start in [pool.submit(node.boot) for node in nodes.values()]:
                start.result()
        laps.lap("containers started")
        cluster = KafkaCluster(
            topology,
            nodes,
            client=client,
            run_id=run_id,
            sidecar=sidecar,
            maker=maker,
            logs=logs,
            proxy=proxy,
        )
        readiness.await_brokers(cluster)
        laps.lap("brokers registered")
        yield cluster


def _state_of(topology: Topology) -> State | None:
    """Return who reads the cluster's znodes; None where there are none."""
    if not topology.zookeeper:
        return None
    return State(",".join(f"127.0.0.1:{node.external_port}" for node in topology.controllers))
