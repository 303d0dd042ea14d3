"""A real Kafka cluster in containers: booted, ready, faulted, and gone without a trace.

Ready means: every broker registered and unfenced, every topic created, every partition at full
ISR. `KafkaCluster` is also what faults act on (`ackproof.faults.Cluster`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ackproof.faults import CommandResult, FaultError
from ackproof.harness.cluster.admin import Admin, PartitionView, TopicPartition
from ackproof.harness.cluster.engine import labels, remove_run
from ackproof.harness.cluster.formatting import bootstrap_checkpoint, new_id
from ackproof.harness.cluster.network import ClusterNetwork
from ackproof.harness.cluster.node import KafkaNode
from ackproof.harness.cluster.ports import reserved
from ackproof.harness.cluster.topology import (
    CONTROLLER_ID,
    LISTENER_PORTS,
    NodeSpec,
    Topology,
    kafka_text,
)
from ackproof.harness.errors import AckproofError, ClusterError
from ackproof.harness.waits import wait_for

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.harness.scenario import ClusterSpec, TopicSpec

P = ParamSpec("P")
R = TypeVar("R")

#: What keeps everything that was written: only a loss may remove a record.
_KEEP_EVERYTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

_BOOT_S = 90.0
_REJOIN_S = 90.0


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
    """One controller and some brokers, and what can be done to them."""

    def __init__(
        self,
        topology: Topology,
        nodes: Mapping[int, KafkaNode],
        *,
        client: DockerClient,
        run_id: str,
        sidecar: Callable[[], str],
    ) -> None:
        self.topology = topology
        self.nodes = nodes
        self.admin = Admin(topology.bootstrap_servers)
        self._client = client
        self._run_id = run_id
        self._sidecar = sidecar

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin."""
        return self.topology.bootstrap_servers

    def await_brokers(self) -> None:
        """Wait until every broker is registered and unfenced.

        Raises ClusterError with the last log lines of a node that died, or of one that did not
        come up in time.
        """
        wanted = frozenset(self.broker_ids())
        starting = Admin(self.bootstrap_servers, timeout_s=0.5)  # a death is noticed in between

        def look() -> frozenset[int]:
            for node in self.nodes.values():
                self._require_alive(node)
            return starting.brokers()

        def failure(seen: frozenset[int]) -> ClusterError:
            missing = sorted(wanted - seen)
            node = self.nodes[missing[0]]
            return ClusterError(
                f"brokers {missing} did not register within {_BOOT_S:g} s; last lines of "
                f"{node.spec.name}:\n{node.log_tail()}"
            )

        wait_for(look, wanted.__eq__, within_s=_BOOT_S, failure=failure)

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create the topics and wait until each of their partitions is at full ISR."""
        for name, topic in topics.items():
            settings = {**_KEEP_EVERYTHING, **{k: kafka_text(v) for k, v in topic.settings.items()}}
            self.admin.create_topic(
                name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                settings=settings,
            )
        self.await_full_isr(
            [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
        )

    def await_full_isr(
        self, places: Sequence[TopicPartition], *, within_s: float = _REJOIN_S
    ) -> None:
        """Wait until every given partition has a leader and a full ISR, and no node has died."""

        def look() -> Mapping[TopicPartition, PartitionView]:
            for node in self.nodes.values():
                self._require_alive(node)
            return self.admin.partitions()

        def full(seen: Mapping[TopicPartition, PartitionView]) -> bool:
            return all(place in seen and seen[place].full_isr for place in places)

        def failure(seen: Mapping[TopicPartition, PartitionView]) -> ClusterError:
            late = [
                f"{topic}-{n}: {_describe(seen.get((topic, n)))}"
                for topic, n in places
                if (topic, n) not in seen or not seen[topic, n].full_isr
            ]
            return ClusterError(
                f"not at full ISR after {within_s:g} s: {'; '.join(late[:8])}",
                hint="The brokers' logs in the run directory say why a replica stays away.",
            )

        wait_for(look, full, within_s=within_s, failure=failure)

    def _require_alive(self, node: KafkaNode) -> None:
        status = node.exit_status()
        if status is not None:
            raise ClusterError(
                f"{node.spec.name} ended with exit status {status}; its last log lines:\n"
                f"{node.log_tail()}"
            )

    # What faults ask and do (ackproof.faults.Cluster).

    def broker_ids(self) -> list[int]:
        """Return the node ids of all brokers, ascending."""
        return [broker.node_id for broker in self.topology.brokers]

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

    @_faults
    def exit_status(self, broker: int) -> int | None:
        """Return the exit status of the broker's process, None while it runs."""
        return self.nodes[broker].exit_status()

    def in_sync(self, broker: int) -> bool:
        """Whether the broker is unfenced and in the ISR of every partition it replicates.

        The broker itself is asked: until its session times out (9 s), the others know nothing of
        its death, and would call it unfenced and in sync while it is still starting. It answers
        only after it has caught up with its own new registration (`BrokerServer.startup`).
        """
        itself = self._admin_of(broker)
        if self.exit_status(broker) is not None or broker not in itself.brokers():
            return False
        partitions = itself.partitions()
        return all(broker in view.isr for view in partitions.values() if broker in view.replicas)

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers requests."""
        return bool(self._admin_of(broker).brokers())

    def _admin_of(self, broker: int) -> Admin:
        """Return a fresh client that knows this broker only: its first question goes there."""
        port = self.nodes[broker].spec.external_port
        return Admin(f"127.0.0.1:{port}", timeout_s=1)

    def address(self, broker: int) -> str:
        """Return the broker's IP address on the cluster's network."""
        return self.nodes[broker].address

    def port(self, listener: str) -> int:
        """Return the port of a listener inside the network."""
        return LISTENER_PORTS[listener]

    @_faults
    def run_beside(self, broker: int, script: str) -> CommandResult:
        """Run a bash script in the broker's network namespace, with NET_ADMIN and nft."""
        from docker.errors import ContainerError
        from docker.types import LogConfig

        container = self.nodes[broker].container
        try:
            output = self._client.containers.run(
                self._sidecar(),
                entrypoint=["/bin/bash", "-c", script],
                network_mode=f"container:{container.id}",
                cap_add=["NET_ADMIN"],
                user="root",
                labels=labels(self._run_id),
                log_config=LogConfig(type="json-file"),  # with others docker-py returns no output
                remove=True,
                stdout=True,
                stderr=True,
            )
        except ContainerError as error:
            return CommandResult(exit_status=error.exit_status, output=_decoded(error.stderr))
        return CommandResult(exit_status=0, output=_decoded(output))


@contextlib.contextmanager
def booted(
    spec: ClusterSpec,
    *,
    client: DockerClient,
    image: str,
    run_id: str,
    sidecar: Callable[[], str],
) -> Iterator[KafkaCluster]:
    """Boot a cluster and yield it once every broker is registered; remove it in the end.

    `sidecar` returns the image with nft and bash; it is asked for when a fault first needs it.
    Raises ClusterError if a node does not come up.
    """
    with contextlib.ExitStack() as cleanup:
        ports = cleanup.enter_context(reserved(spec.brokers))
        # By label, not by handle: an interrupt between the engine's doing and our knowing of it
        # leaves nothing behind, sidecars included.
        cleanup.callback(remove_run, client, run_id)
        topology = Topology(
            cluster_id=new_id(),
            controller=NodeSpec(node_id=CONTROLLER_ID, role="controller"),
            brokers=tuple(
                NodeSpec(node_id=index, role="broker", external_port=port)
                for index, port in enumerate(ports, start=1)
            ),
            settings=spec.settings,
        )
        network = ClusterNetwork(run_id)
        network.create()
        checkpoint = bootstrap_checkpoint(client, image, run_id=run_id)
        nodes = {
            node.node_id: KafkaNode(
                node,
                topology,
                image=image,
                run_id=run_id,
                checkpoint=checkpoint,
                heap=spec.heap,
                network=network,
                address=network.address(index),
            )
            for index, node in enumerate(topology.nodes)
        }
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            for start in [pool.submit(node.boot) for node in nodes.values()]:
                start.result()
        cluster = KafkaCluster(topology, nodes, client=client, run_id=run_id, sidecar=sidecar)
        cluster.await_brokers()
        yield cluster


def _describe(view: PartitionView | None) -> str:
    if view is None:
        return "unknown to the brokers"
    return f"leader {view.leader}, ISR {list(view.isr)} of {list(view.replicas)}"


def _decoded(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
