"""The controllers' metadata log, read from a controller's disk: also while no broker answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from ackproof.cluster import kafka_tools, metadata_log
from ackproof.cluster.admin import TopicPartition
from ackproof.cluster.metadata_log import PartitionState
from ackproof.cluster.node import KafkaNode
from ackproof.cluster.state import ClusterState
from ackproof.containers.paths import DATA_DIR
from ackproof.errors import ClusterError

#: Seconds for which a reading is used again: Kafka's tool takes more than a second of a CPU.
_FRESH_S = 1.0

# If the beginning of the log is deleted (after a snapshot, by metadata.max.retention.*), the first
# remaining snapshot replaces it.
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


def dump(controller: KafkaNode, folder: str = f"{DATA_DIR}/__cluster_metadata-0") -> str:
    """Return Kafka's dump of the metadata log in a directory of the controller.

    Raises ClusterError with the tool's output if it fails.
    """
    return kafka_tools.run_script(controller, f"cd {folder}\n{_DUMP}", "dumping the metadata log")


def longest(controllers: list[KafkaNode]) -> str:
    """Return the dump with the last entry: an isolated controller may lack the quorum's end.

    Raises ClusterError with a tool's output if it fails.
    """
    return max(map(dump, controllers), key=metadata_log.last_offset)


class ControllersLog:
    """The state of partitions by the log of the controllers that run."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._partitions: Mapping[TopicPartition, PartitionState] = {}
        self._read_at = float("-inf")

    def partitions(self) -> Mapping[TopicPartition, PartitionState]:
        """Return the last state of every partition; empty while no controller's log is readable.

        It is at most some seconds old.
        """
        if time.monotonic() - self._read_at > _FRESH_S:
            self._partitions = self._read()
            self._read_at = time.monotonic()
        return self._partitions

    def _read(self) -> Mapping[TopicPartition, PartitionState]:
        running = [self._cluster.nodes[node] for node in self._cluster.running_controllers()]
        if not running or self._cluster.topology.zookeeper:
            return {}
        with contextlib.suppress(ClusterError, ValueError):  # cut while a controller writes
            states = metadata_log.parse(longest(running)).partitions
            return {(state.topic, state.partition): state for state in states}
        return {}
