"""Takes the controllers' metadata log, the nodes' logs and the clocks of a cluster."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster import controllers_log, metadata_log
from ackproof.cluster.metadata_log import MetadataLog
from ackproof.cluster.zookeeper import SNAPSHOT_DIR
from ackproof.containers.paths import DATA_DIR
from ackproof.errors import ClusterError
from ackproof.observation import zookeeper_log
from ackproof.observation.clocks import engine_clock, node_clock
from ackproof.runs.directory import Clock

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster
    from ackproof.cluster.node import KafkaNode


def take_metadata_log(cluster: KafkaCluster, run_dir: Path) -> MetadataLog:
    """Store the controllers' metadata log in the run directory; return its states.

    KRaft: `__cluster_metadata`, dumped by Kafka's tool, as metadata.log. ZooKeeper: its transaction
    logs, as zookeeper/<node>/log.<zxid>.

    Raises ClusterError if no controller has a readable log, ValueError or KeyError if it cannot be
    parsed.
    """
    voters = [cluster.nodes[node.node_id] for node in cluster.topology.controllers]
    running = [node for node in voters if node.exit_status() is None]
    if not running:
        names = ", ".join(node.spec.name for node in voters)
        raise ClusterError(f"the metadata log cannot be read: none of {names} is running")
    if cluster.topology.zookeeper:
        return _take_transactions(voters, run_dir / "zookeeper")
    dumped = controllers_log.longest(running)
    (run_dir / "metadata.log").write_text(dumped, encoding="utf-8")
    return metadata_log.parse(dumped)


def _take_transactions(nodes: list[KafkaNode], folder: Path) -> MetadataLog:
    logs = []
    for node in nodes:
        target = folder / node.spec.name
        target.mkdir(parents=True, exist_ok=True)
        chunks, _ = node.container.get_archive(f"{DATA_DIR}/{SNAPSHOT_DIR}")
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name.startswith("log.") else None
                if file is not None:
                    logs.append(file.read())
                    (target / name).write_bytes(logs[-1])
    return zookeeper_log.states(logs)


def take_clocks(cluster: KafkaCluster, now: Callable[[], datetime]) -> list[Clock]:
    """Return the clocks of the engine and of every node, compared with this host's (`now`)."""
    engine = engine_clock(cluster.client, now)
    return [engine, *filter(None, (node_clock(node, engine) for node in cluster.nodes.values()))]


def take_node_logs(cluster: KafkaCluster, run_dir: Path) -> None:
    """Stream every node's log to logs/<node>.log, whether the node runs or not."""
    for node in cluster.nodes.values():
        node.save_log(run_dir / "logs", since=cluster.since)
