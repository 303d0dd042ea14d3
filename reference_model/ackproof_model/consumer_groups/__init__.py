"""When a consumer group commits, and what it then misses or does twice: a specification.

One partition that holds all its records, a group one of whose members has it at a time, and
processing with an effect that lasts. A member that was thrown out goes on with what it has polled,
until something refuses it. Only perturbations are counted, see `OffsetBudgets`.

The group's rules are those of `GroupCoordinator` (KIP-98, KIP-447), the members' those of
librdkafka and of the Java client.
"""

from ackproof_model.consumer_groups.bounds import (
    PERTURBATIONS,
    CommitMode,
    OffsetBudgets,
    OffsetChecks,
    OffsetModel,
)
from ackproof_model.consumer_groups.search import ANOMALIES, MAX_STATES, search

__all__ = [
    "ANOMALIES",
    "MAX_STATES",
    "PERTURBATIONS",
    "CommitMode",
    "OffsetBudgets",
    "OffsetChecks",
    "OffsetModel",
    "search",
]
