"""Reads the controllers' metadata log from a controller's disk, which needs no broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ackproof.containers.commands import Node, run_script
from ackproof.containers.images import DATA_DIR
from ackproof.containers.kafka_tools import TOOLS, kafka_command
from ackproof.errors import ClusterError
from ackproof.observation import metadata_log
from ackproof.observation.metadata_log import MetadataLog, PartitionState
from ackproof_faults.interfaces.cluster import TopicPartition

_NOTHING = MetadataLog(partitions=(), brokers=())

#: Seconds for which the result is reused: Kafka's tool takes more than a second of CPU time.
_FRESH_S = 1.0

# If the beginning of the log is deleted (after a snapshot, by metadata.max.retention.*), the first
# remaining snapshot replaces it.
_DUMP_LOG = kafka_command(
    TOOLS["kafka-dump-log"],
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


def dump_script(folder: str) -> str:
    """Return the script that prints the metadata log in a directory with Kafka's tool."""
    return f"cd {folder}\n{_DUMP}"


def dump(controller: Node, folder: str = f"{DATA_DIR}/__cluster_metadata-0") -> str:
    """Return Kafka's dump of the metadata log in a directory of the controller.

    Raises ClusterError with the tool's output if it fails.
    """
    return run_script(controller, dump_script(folder), "dumping the metadata log")


def longest(controllers: Sequence[Node]) -> str:
    """Return the dump with the last entry: an isolated controller may lack the latest entries.

    Raises ClusterError with a tool's output if it fails.
    """
    return max(map(dump, controllers), key=metadata_log.last_offset)


def take(controllers: Sequence[Node], run_dir: Path) -> MetadataLog:
    """Store the longest log as metadata.log in the run directory; return its states.

    Raises ClusterError if it cannot be dumped, ValueError or KeyError if it cannot be parsed.
    """
    dumped = longest(controllers)
    (run_dir / "metadata.log").write_text(dumped, encoding="utf-8")
    return metadata_log.parse(dumped)


class ControllersLog:
    """Partitions and settings in the log of the controllers that `running` returns."""

    def __init__(self, running: Callable[[], Sequence[Node]]) -> None:
        self._running = running
        self._log = _NOTHING
        self._read_at = float("-inf")

    def partitions(self) -> Mapping[TopicPartition, PartitionState]:
        """Return the state of every partition, some seconds old; empty if no log is readable."""
        return {(state.topic, state.partition): state for state in self._fresh().latest}

    def settings(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own settings, some seconds old; empty if no log is readable."""
        return self._fresh().settings.get(topic, {})

    def _fresh(self) -> MetadataLog:
        if time.monotonic() - self._read_at > _FRESH_S:
            self._log = self._read()
            self._read_at = time.monotonic()
        return self._log

    def _read(self) -> MetadataLog:
        if running := self._running():
            with contextlib.suppress(ClusterError, ValueError):  # cut while a controller writes
                return metadata_log.parse(longest(running))
        return _NOTHING
