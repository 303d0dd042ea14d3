"""The levels of a cluster's features (KIP-584), by Kafka's own tool."""

from __future__ import annotations

import re

from ackproof.cluster import kafka_tools
from ackproof.cluster.state import ClusterState

_TOOL = ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand")
_METADATA = "metadata.version"


def upgrade(cluster: ClusterState, feature: str, level: str) -> None:
    """Finalize a higher level of a feature; raise ClusterError with Kafka's reason to refuse.

    Levels of metadata.version have names (``4.1-IV1``); levels of other features are numbers.
    """
    change = ("--metadata", level) if feature == _METADATA else ("--feature", f"{feature}={level}")
    kafka_tools.run_at_a_broker(cluster, _TOOL, "upgrade", *change)


def level(cluster: ClusterState, feature: str) -> str | None:
    """Return a feature's finalized level, None if the cluster does not know the feature."""
    return parse(kafka_tools.run_at_a_broker(cluster, _TOOL, "describe"), feature)


def parse(description: str, feature: str) -> str | None:
    """Return a feature's level in the output of `kafka-features describe`."""
    line = rf"^Feature: {re.escape(feature)}\s.*FinalizedVersionLevel: (?P<level>\S+)"
    match = re.search(line, description, re.MULTILINE)
    return match["level"] if match else None
