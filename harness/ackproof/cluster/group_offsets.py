"""The offsets of consumer groups and share groups, read and set by Kafka's own tools.

confluent-kafka has neither the requests for a share group's offsets (KIP-932) nor the one that
deletes those of a consumer group (KIP-496). The tools of both kinds have the same options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.nodes import ClusterNodes
from ackproof.cluster.share_groups import rows
from ackproof.containers.kafka_tools import TOOLS
from ackproof.kafka_versions import numbers
from ackproof.scenario.share_groups import SINCE
from ackproof.waiting import last_result
from ackproof_faults.evidence import FaultError

_CONSUMER_GROUPS = (
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka.admin.ConsumerGroupCommand",
)
_NO_SHARE_GROUP = "is not a share group"
#: The tools report a refusal so, and end with exit status 0.
_ERROR = re.compile("Error: (.*)", re.DOTALL)
#: The column of offsets: of a consumer group, of a share group, and of what a tool has set.
_OFFSETS = ("CURRENT-OFFSET", "START-OFFSET", "NEW-OFFSET")


@raises_fault_errors
class GroupOffsets:
    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster

    def group_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        _, output = self._of_group(group)
        return offsets(output, topic)

    def set_offsets(
        self, group: str, topic: str, to: int | str | None, *, within_s: float
    ) -> Mapping[int, int]:
        tool, _ = self._of_group(group)
        match to:
            case None:
                action = ["--delete-offsets"]
            case int():
                action = ["--reset-offsets", "--execute", "--to-offset", str(to)]
            case _:
                action = ["--reset-offsets", "--execute", f"--to-{to}"]
        output = last_result(
            lambda: self._cluster.run_kafka_tool(tool, *action, "--group", group, "--topic", topic),
            lambda text: _ERROR.search(text) is None,
            within_s=within_s,
        )
        if refused := _ERROR.search(output):
            reason = " ".join(refused[1].split())
            raise FaultError(f"Kafka refuses to change the offsets of {group}: {reason}")
        return offsets(output, topic)

    def _of_group(self, group: str) -> tuple[tuple[str, ...], str]:
        """Return the tool for such a group, and what it says of the group's offsets."""
        options = ("--describe", "--offsets", "--group", group)
        if numbers(self._cluster.topology.kafka) >= SINCE:
            output = self._cluster.run_kafka_tool(TOOLS["kafka-share-groups"], *options)
            if _NO_SHARE_GROUP not in output:
                return TOOLS["kafka-share-groups"], output
        return _CONSUMER_GROUPS, self._cluster.run_kafka_tool(_CONSUMER_GROUPS, *options)


def offsets(output: str, topic: str) -> dict[int, int]:
    """Return the offsets in a topic of the table that a tool has printed, by partition."""
    return {
        int(partition): int(offset)
        for column in _OFFSETS
        for name, partition, offset in rows(output, ("TOPIC", "PARTITION", column))
        if name == topic and offset != "-"
    }
