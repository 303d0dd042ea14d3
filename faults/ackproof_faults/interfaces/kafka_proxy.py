"""What a proxy that understands Kafka's framing can do to requests and responses.

Nodes are told apart by their client.id: a follower fetches as ``broker-2-fetcher-0``, a broker asks
controllers as its id.

The proxy is in the path of a listener only where a scenario asks (`cluster.proxied`). It acts by
rules: one API, requests or responses, of some brokers and clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

Api = Literal[
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "ApiVersions",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
    "Vote",
    "BeginQuorumEpoch",
    "AlterPartition",
    "FetchSnapshot",
    "BrokerHeartbeat",
    "AllocateProducerIds",
]

#: Requests of clients and nodes, and their keys (`org.apache.kafka.common.protocol.ApiKeys`).
API_KEYS: Mapping[Api, int] = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    # Sent by brokers and controllers only.
    "WriteTxnMarkers": 27,
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "AlterPartition": 56,
    "FetchSnapshot": 59,
    "BrokerHeartbeat": 63,
    "AllocateProducerIds": 67,
}

#: Which of them go to controllers, and which to brokers, only over the listener between nodes.
TO_CONTROLLERS: frozenset[Api] = frozenset(
    {
        "Vote",
        "BeginQuorumEpoch",
        "AlterPartition",
        "FetchSnapshot",
        "BrokerHeartbeat",
        "AllocateProducerIds",
    }
)
BETWEEN_BROKERS: frozenset[Api] = frozenset({"WriteTxnMarkers"})

Direction = Literal["request", "response"]
Action = Literal["hold", "delay", "drop", "duplicate", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do with the messages of one API in one direction.

    hold: until the rule is removed, with everything behind it on its connection; delay: the same
    for `delay_s`; drop: it never arrives; duplicate: it arrives twice; cut: its connection is
    closed instead. `client` is how the `client.id` must begin. `count`: only so many messages.
    """

    api: Api
    direction: Direction
    action: Action
    brokers: frozenset[int]
    client: str = ""
    delay_s: float = 0.0
    count: int | None = None


class Link(Protocol):
    """The proxy, as faults use it."""

    def add(self, rule: Rule) -> None:
        """Act on messages by this rule from now on."""

    def remove(self, rule: Rule) -> None:
        """Act on no further message, and let go what is held; a no-op without the rule."""

    def hits(self, rule: Rule, *, at_least: int, within_s: float) -> list[str]:
        """Return what the rule was applied to, in words, after waiting for so many of them."""

    def held(self, rule: Rule) -> int:
        """Return how many messages are held or delayed by the rule now."""
