"""Committed offsets: which records a consumer group skips or processes twice.

One partition that keeps all its records, a group of which one member at a time owns it, and
processing with a lasting effect. A member that was removed from the group continues with the
records that it has polled until a request of it is refused. Only perturbations are counted, see
`OffsetBudgets`.

The group's rules are those of `GroupCoordinator` (KIP-98, KIP-447), the members' those of
librdkafka and of the Java client.
"""

from ackproof_model.consumer_groups.bounds import (
    PERTURBATIONS,
    CommitMode,
    OffsetBudgets,
    OffsetModel,
)
from ackproof_model.consumer_groups.search import ANOMALIES, MAX_STATES, certain, search

__all__ = [
    "ANOMALIES",
    "MAX_STATES",
    "PERTURBATIONS",
    "CommitMode",
    "OffsetBudgets",
    "OffsetModel",
    "certain",
    "search",
]
