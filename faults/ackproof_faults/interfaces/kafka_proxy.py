"""A proxy that understands Kafka's framing, and its rules for requests and responses.

The client.id identifies a client: a follower fetches as ``broker-2-fetcher-0``, a broker sends
requests to controllers with its id. The proxy is in the path of the listeners in `cluster.proxied`.
A rule applies to the requests or responses of one API, of some brokers and clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

#: Requests of clients and nodes, and their keys (`org.apache.kafka.common.protocol.ApiKeys`).
API_KEYS = {
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
    # The consumer protocol (KIP-848) and share groups (KIP-932).
    "ConsumerGroupHeartbeat": 68,
    "ShareGroupHeartbeat": 76,
    "ShareFetch": 78,
    "ShareAcknowledge": 79,
    # Sent by brokers and controllers only.
    "WriteTxnMarkers": 27,
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "EndQuorumEpoch": 54,
    "AlterPartition": 56,
    "FetchSnapshot": 59,
    "BrokerRegistration": 62,
    "BrokerHeartbeat": 63,
    "AllocateProducerIds": 67,
    "InitializeShareGroupState": 83,
    "ReadShareGroupState": 84,
    "WriteShareGroupState": 85,
}

if TYPE_CHECKING:
    Api = str  #: a name of `API_KEYS`
else:
    Api = Literal[tuple(API_KEYS)]

#: APIs that are sent only between nodes: to controllers, and to brokers.
TO_CONTROLLERS = {
    *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "AlterPartition", "FetchSnapshot"),
    *("BrokerRegistration", "BrokerHeartbeat", "AllocateProducerIds"),
}
BETWEEN_BROKERS = {
    "WriteTxnMarkers",
    *("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"),
}

Direction = Literal["request", "response"]
Action = Literal["hold", "delay", "drop", "duplicate", "cut", "error"]

#: Errors (`org.apache.kafka.common.protocol.Errors`) that a broker may send after it has appended a
#: batch, so that a send with one of them is unknown or sent again, and never failed.
UNDECIDED = {
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "KAFKA_STORAGE_ERROR": 56,
}
#: These say that nothing was appended.
REFUSALS = {
    "MESSAGE_TOO_LARGE": 10,
    "NOT_ENOUGH_REPLICAS": 19,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "INVALID_RECORD": 87,
}
#: Clients look for the coordinator again and repeat the request.
OF_COORDINATORS = {
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
}
ERROR_CODES = UNDECIDED | REFUSALS | OF_COORDINATORS

#: Coordinators' responses with one error code: the first version with a throttle time before it,
#: and the first with tagged fields.
ONE_ERROR = {
    "JoinGroup": (2, 6),
    "Heartbeat": (1, 4),
    "LeaveGroup": (1, 4),
    "SyncGroup": (1, 4),
    "InitProducerId": (0, 2),
    "AddOffsetsToTxn": (0, 3),
    "EndTxn": (0, 3),
    "ConsumerGroupHeartbeat": (0, 0),
    "ShareGroupHeartbeat": (0, 0),
}


def errors_of(api: Api, direction: Direction) -> dict[str, int]:
    """Return the errors that a rule may report for such messages."""
    if api == "Produce":
        return UNDECIDED | REFUSALS
    return OF_COORDINATORS if api in ONE_ERROR and direction == "response" else {}


if TYPE_CHECKING:
    ErrorName = str  #: a name of `ERROR_CODES`
else:
    ErrorName = Literal[tuple(ERROR_CODES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for the messages of one API in one direction.

    hold: they wait until the rule is removed, with everything behind them on their connections;
    delay: the same for `delay_s`; drop: they never arrive; duplicate: they arrive twice; cut: their
    connections are closed instead; error: the answer reports `error`, and the broker has carried
    out the request (`direction` is response) or refused it (request). client: a prefix of the
    `client.id`. count: the rule applies to this many messages only.
    """

    api: Api
    direction: Direction
    action: Action
    brokers: frozenset[int]
    client: str = ""
    delay_s: float = 0.0
    error: ErrorName = ""
    count: int | None = None


class Link(Protocol):
    """Add and remove rules of the proxy, and count their messages."""

    def add(self, rule: Rule) -> None:
        """Apply this rule from now on."""

    def remove(self, rule: Rule) -> None:
        """Stop applying the rule and release what it holds; a no-op without the rule."""

    def hits(self, rule: Rule, *, at_least: int, within_s: float) -> list[str]:
        """Return the messages that the rule was applied to, in words.

        Waits for at least `at_least` messages, for at most `within_s`.
        """

    def held(self, rule: Rule) -> int:
        """Return how many messages the rule holds or delays now."""
