"""Boots a cluster: network, ports, nodes, and the wait until every broker is registered."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster import proxy_routes, readiness
from ackproof.cluster.cluster import KafkaCluster
from ackproof.cluster.formatting import bootstrap_checkpoint, new_id
from ackproof.cluster.network import ClusterNetwork
from ackproof.cluster.node import NodeFactory
from ackproof.cluster.ports import reserved
from ackproof.cluster.security import secured
from ackproof.cluster.topology import arrange, ports_needed
from ackproof.containers import fake_clock
from ackproof.containers.engine import remove_run
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.proxy.proxy import LinkProxy
from ackproof.scenario.cluster import ClusterSpec

if TYPE_CHECKING:
    from docker import DockerClient


class PhaseTimes:
    """Seconds that each phase of a boot took, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def end(self, phase: str) -> None:
        """Add the time since the last phase ended to this phase."""
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now


@contextlib.contextmanager
def booted(
    spec: ClusterSpec,
    *,
    client: DockerClient,
    image: str,
    run_id: str,
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
    times: PhaseTimes | None = None,
) -> Iterator[KafkaCluster]:
    """Boot a cluster, yield it when every broker is registered, and remove it at the end.

    A cluster that is `left_up` is not removed.

    `image` runs the version `kafka`. `logs` is the folder for logs of containers that are removed
    before the run ends. `times` collects the time of each phase. Raises ClusterError if a node does
    not boot.
    """
    times = times or PhaseTimes()
    cluster: KafkaCluster | None = None

    def remove() -> None:
        if cluster is None or not cluster.left_up:
            remove_run(client, run_id)

    with contextlib.ExitStack() as cleanup:
        clock = fake_clock.library(client) if spec.clock == "adjustable" else b""
        ports = cleanup.enter_context(reserved(ports_needed(spec, kafka)))
        # By label, so that objects are removed whose creation was interrupted before their ids
        # were known, sidecars included.
        cleanup.callback(remove)
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
        times.end("network and ports")
        factory = NodeFactory(
            image=image,
            run_id=run_id,
            checkpoint=checkpoint,
            network=network,
            reserve_ports=lambda count: cleanup.enter_context(reserved(count)),
            clock=clock,
        )
        nodes = {node.node_id: factory.create(node, topology) for node in topology.nodes}
        proxy = None
        if topology.proxied:
            proxy = LinkProxy()
            cleanup.enter_context(proxy.running())
            for node in nodes.values():
                proxy_routes.add(proxy, node, topology)
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            for boot in [pool.submit(node.boot) for node in nodes.values()]:
                boot.result()
        times.end("containers started")
        cluster = KafkaCluster(
            topology,
            nodes,
            client=client,
            run_id=run_id,
            factory=factory,
            logs=logs,
            proxy=proxy,
        )
        readiness.await_brokers(cluster)
        times.end("brokers registered")
        yield cluster
