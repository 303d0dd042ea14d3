"""Copies of a cluster whose nodes are stopped or frozen, so that each alternative has its own.

Nothing in the volumes changes: the copies have the same node ids, host names, cluster id and
quorum, on a network of their own. Only the published ports differ, which come from each container's
own configuration.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.network import create_network, reserved_ports
from ackproof.cluster.topology import arrange
from ackproof.containers.commands import run_sidecar
from ackproof.containers.engine import labels, remove_run
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec


def copy_disks(cluster: KafkaCluster, folder: Path, numbers: Collection[int] | None = None) -> None:
    """Copy the log directories of nodes to <folder>/<node>; the nodes may be stopped.

    numbers: those nodes, which were started once; all without it.
    """
    for node in [cluster.nodes[number] for number in numbers or cluster.nodes]:
        for directory in node.directories:
            stream, _ = node.container.get_archive(directory)
            with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
                archive.extractall(folder / node.name, filter="data")


@contextlib.contextmanager
def forked(
    original: KafkaCluster, spec: ClusterSpec, *, run_id: str, start: Collection[int]
) -> Iterator[KafkaCluster]:
    """Yield a copy of a cluster with the nodes `start` running; remove it at the end.

    spec: that of the original. No node of the original may run; a frozen one does not. The other
    nodes of the copy are booted by `KafkaNode.boot`. Raises ClusterError if a node runs, or if the
    volumes cannot be copied.
    """
    client = original.client
    if running := [node.name for node in original.nodes.values() if node.running()]:
        raise ClusterError(f"{', '.join(running)} still runs: stop or freeze the nodes first")
    with contextlib.ExitStack() as cleanup:
        ports = cleanup.enter_context(reserved_ports())
        cleanup.callback(remove_run, client, run_id)
        network = create_network(client, run_id)
        topology = arrange(
            spec,
            original.topology.kafka,
            cluster_id=original.topology.cluster_id,
            ports=ports,
            gateway=network.gateway,
        )
        factory = replace(original.factory, run_id=run_id, network=network, ports=ports)
        nodes = {node.node_id: factory.create(node, topology) for node in topology.nodes}
        volumes: dict[str, dict[str, str]] = {}
        for number, node in nodes.items():
            client.volumes.create(node.volume, labels=labels(run_id))
            volumes[original.nodes[number].volume] = {"bind": f"/from/{number}", "mode": "ro"}
            volumes[node.volume] = {"bind": f"/to/{number}", "mode": "rw"}
        script = "for node in /from/*; do cp -a --sparse=always $node/. /to/${node##*/}; done"
        copied = run_sidecar(
            client, original.sidecar, f"set -e; {script}", run_id=run_id, volumes=volumes
        )
        if copied.exit_status:
            raise ClusterError(f"the volumes cannot be copied: {copied.output[-500:]}")
        cluster = KafkaCluster(topology, nodes, client=client, factory=factory, proxy=None)
        with ThreadPoolExecutor(max_workers=max(len(start), 1)) as pool:
            for boot in [pool.submit(nodes[number].boot) for number in start]:
                boot.result()
        yield cluster
