"""The markers that end a transaction: which are due, and what becomes of each.

The rules follow `TransactionMarkerChannelManager`; `tests/conformance` compares them with Kafka's
class.
"""

from __future__ import annotations

from enum import Enum

from ackproof_model.configuration import Profile
from ackproof_model.transactions.state import PREPARED, Coordinator, Entry, Message, Txn


class Leader(Enum):
    """What the coordinator's metadata has of a partition's leader.

    UNREACHABLE: it has no endpoint on the listener between brokers. DELETED: there is no such
    partition.
    """

    BROKER = "broker"
    UNREACHABLE = "unreachable"
    NONE = "none"
    DELETED = "deleted"


class Way(Enum):
    """What becomes of a marker: sent to the leader, kept until there is one, or never written."""

    SENT = "sent"
    WAITS = "waits"
    SKIPPED = "skipped"


def way(profile: Profile, leader: Leader) -> Way:
    """`addTxnMarkersToBrokerQueue`: asked when a marker is due, and whenever it could not be sent.

    `KRaftMetadataCache.getPartitionLeaderEndpoint` answers without a node for a partition that does
    not exist. From 4.3 it does for a partition without a leader, too (KAFKA-20734).
    """
    if leader is Leader.BROKER:
        return Way.SENT
    if leader is Leader.DELETED or (leader is Leader.NONE and profile.skips_markers):
        return Way.SKIPPED
    return Way.WAITS


def marker(request: Message) -> Entry:
    return Entry(-1, request.epoch, commit=request.commit, term=request.term)


def markers(coordinator: Coordinator) -> list[Message]:
    """Return the markers that a coordinator must still write."""
    if coordinator.state not in PREPARED:
        return []
    commit = coordinator.state is Txn.PREPARE_COMMIT
    return [
        Message(
            "marker",
            -1,
            coordinator.epoch,
            partition=at,
            commit=commit,
            term=coordinator.term,
        )
        for at in range(coordinator.partitions.bit_length())
        if coordinator.partitions >> at & 1
    ]
