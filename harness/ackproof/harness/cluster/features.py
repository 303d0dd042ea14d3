"""The levels of a cluster's features (KIP-584), by Kafka's own tool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ackproof.harness.cluster import tools

if TYPE_CHECKING:
    from ackproof.harness.cluster.node import KafkaNode

_TOOL = ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand")
_METADATA = "metadata.version"


def upgrade(node: KafkaNode, bootstrap: str, feature: str, level: str) -> None:
    """Finalize a higher level of a feature; raise ClusterError with Kafka's reason to refuse.

    `node` runs the tool, which asks the brokers at `bootstrap`. Levels of metadata.version have
    names (``4.1-IV1``), all others numbers.
    """
    wanted = ("--metadata", level) if feature == _METADATA else ("--feature", f"{feature}={level}")
    tools.run(node, _TOOL, "--bootstrap-server", bootstrap, "upgrade", *wanted)


def level(node: KafkaNode, bootstrap: str, feature: str) -> str | None:
    """Return a feature's finalized level, None if the cluster does not know the feature."""
    return parse(tools.run(node, _TOOL, "--bootstrap-server", bootstrap, "describe"), feature)


def parse(described: str, feature: str) -> str | None:
    """Return a feature's level in what `kafka-features describe` prints."""
    line = rf"^Feature: {re.escape(feature)}\s.*FinalizedVersionLevel: (?P<level>\S+)"
    found = re.search(line, described, re.MULTILINE)
    return found["level"] if found else None
