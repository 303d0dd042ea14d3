"""The levels of a cluster's features (KIP-584), by Kafka's own tool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ackproof.cluster import kafka_tools

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster

_TOOL = ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand")
_METADATA = "metadata.version"


def upgrade(cluster: KafkaCluster, feature: str, level: str) -> None:
    """Finalize a higher level of a feature; raise ClusterError with Kafka's reason to refuse.

    Levels of metadata.version have names (``4.1-IV1``), all others numbers.
    """
    wanted = ("--metadata", level) if feature == _METADATA else ("--feature", f"{feature}={level}")
    _run(cluster, "upgrade", *wanted)


def level(cluster: KafkaCluster, feature: str) -> str | None:
    """Return a feature's finalized level, None if the cluster does not know the feature."""
    return parse(_run(cluster, "describe"), feature)


def _run(cluster: KafkaCluster, *arguments: str) -> str:
    node = cluster.nodes[kafka_tools.any_running(cluster)]
    return kafka_tools.run(
        node, _TOOL, "--bootstrap-server", kafka_tools.inside(cluster), *arguments
    )


def parse(described: str, feature: str) -> str | None:
    """Return a feature's level in what `kafka-features describe` prints."""
    line = rf"^Feature: {re.escape(feature)}\s.*FinalizedVersionLevel: (?P<level>\S+)"
    found = re.search(line, described, re.MULTILINE)
    return found["level"] if found else None
