"""Takes what the cluster itself recorded: the controller's metadata log and the nodes' logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.harness.cluster.images import CLASSPATH
from ackproof.harness.cluster.topology import DATA_DIR
from ackproof.harness.errors import ClusterError
from ackproof.harness.metadata_log import MetadataLog, parse

if TYPE_CHECKING:
    from ackproof.harness.cluster.cluster import KafkaCluster

# The class moved from core to tools in Kafka 4.
_DUMP = f"""
for class in org.apache.kafka.tools.DumpLogSegments kafka.tools.DumpLogSegments; do
  java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m -cp '{CLASSPATH}' "$class" \\
    --cluster-metadata-decoder --skip-record-metadata \\
    --files "$(ls {DATA_DIR}/__cluster_metadata-0/*.log | paste -sd,)" && exit 0
done
exit 1
"""


def take_metadata_log(cluster: KafkaCluster, run_dir: Path) -> MetadataLog:
    """Dump `__cluster_metadata` at the controller, keep it as metadata.log, return its states.

    Raises ClusterError if Kafka's tool cannot read it.
    """
    controller = cluster.nodes[cluster.topology.controller.node_id].container
    result: Any = controller.exec_run(["bash", "-c", _DUMP], demux=True)
    output, errors = (stream or b"" for stream in result.output)
    if result.exit_code != 0:
        raise ClusterError(
            f"the controller's metadata log cannot be dumped: {errors.decode(errors='replace')}"
        )
    dump = output.decode()
    (run_dir / "metadata.log").write_text(dump, encoding="utf-8")
    return parse(dump)


def take_node_logs(cluster: KafkaCluster, run_dir: Path) -> None:
    """Write every node's log to logs/<node>.log, streamed, whatever state the node is in."""
    folder = run_dir / "logs"
    folder.mkdir(exist_ok=True)
    for node in cluster.nodes.values():
        with (folder / f"{node.spec.name}.log").open("wb") as file:
            for chunk in node.container.logs(stream=True, follow=False):
                file.write(chunk)
