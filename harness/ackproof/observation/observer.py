"""Takes what the cluster itself recorded: the controllers' metadata log and the nodes' logs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster import kafka_tools
from ackproof.cluster.zookeeper import SNAPSHOT_DIR
from ackproof.containers.paths import DATA_DIR
from ackproof.errors import ClusterError
from ackproof.observation import metadata_log, zookeeper_log
from ackproof.observation.clocks import Clock, engine_clock, node_clock
from ackproof.observation.metadata_log import MetadataLog

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster
    from ackproof.cluster.node import KafkaNode

# Where the beginning of the log is gone (after a snapshot, and metadata.max.retention.*), the first
# snapshot of what is left stands for it.
_DUMP_LOG = kafka_tools.command(
    ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "--cluster-metadata-decoder --skip-record-metadata "
    "--files \"$(echo $snapshot $logs | tr ' ' ,)\"",
)
_DUMP = f"""
logs=$(ls *.log)
first=${{logs%%.log*}}
snapshot=
if [ $((10#$first)) -gt 0 ]; then
  for candidate in *-*.checkpoint; do
    if [ $((10#${{candidate%%-*}})) -ge $((10#$first)) ]; then snapshot=$candidate; break; fi
  done
fi
{_DUMP_LOG}
"""


def take_metadata_log(cluster: KafkaCluster, run_dir: Path) -> MetadataLog:
    """Take what the controllers decided, keep it in the run directory, return its states.

    KRaft: `__cluster_metadata`, dumped by Kafka's tool, as metadata.log. ZooKeeper: its transaction
    logs, as zookeeper/<node>/log.<zxid>.

    Raises ClusterError if no controller has a log that can be read, and ValueError or KeyError for
    one that makes no sense.
    """
    voters = [cluster.nodes[node.node_id] for node in cluster.topology.controllers]
    running = [node for node in voters if node.exit_status() is None]
    if not running:
        names = ", ".join(node.spec.name for node in voters)
        raise ClusterError(f"no controller runs whose log could be taken ({names})")
    if cluster.topology.zookeeper:
        return _take_transactions(voters, run_dir / "zookeeper")
    # A controller that was cut off may lack the end; the log that reaches furthest is the quorum's.
    dumped = max((dump(node) for node in running), key=metadata_log.last_offset)
    (run_dir / "metadata.log").write_text(dumped, encoding="utf-8")
    return metadata_log.parse(dumped)


def dump(controller: KafkaNode, folder: str = f"{DATA_DIR}/__cluster_metadata-0") -> str:
    """Return what Kafka's tool prints of the metadata log in a folder of the controller.

    Raises ClusterError with the tool's words if it fails.
    """
    return kafka_tools.run_script(controller, f"cd {folder}\n{_DUMP}", "dumping the metadata log")


def _take_transactions(nodes: list[KafkaNode], folder: Path) -> MetadataLog:
    logs = []
    for node in nodes:
        place = folder / node.spec.name
        place.mkdir(parents=True, exist_ok=True)
        chunks, _ = node.container.get_archive(f"{DATA_DIR}/{SNAPSHOT_DIR}")
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name.startswith("log.") else None
                if file is not None:
                    logs.append(file.read())
                    (place / name).write_bytes(logs[-1])
    return zookeeper_log.states(logs)


def take_clocks(cluster: KafkaCluster, now: Callable[[], datetime]) -> list[Clock]:
    """Return the engine's clock and every node's, against this host's (`now`)."""
    engine = engine_clock(cluster.client, now)
    return [engine, *filter(None, (node_clock(node, engine) for node in cluster.nodes.values()))]


def take_node_logs(cluster: KafkaCluster, run_dir: Path) -> None:
    """Write every node's log to logs/<node>.log, streamed, whatever state the node is in."""
    for node in cluster.nodes.values():
        node.save_log(run_dir / "logs", since=cluster.since)
