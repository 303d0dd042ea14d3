"""The anomalies of a run, and which tables of the run show them."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Self


class ShownBy(Enum):
    """What a run must have for an anomaly to be counted, beside the ledger and the final log."""

    LOG = auto()
    #: The segments of the replicas.
    REPLICAS = auto()
    TRANSACTIONS = auto()
    CONSUMERS = auto()
    #: Consumers or the probe.
    READS = auto()
    SHARE_GROUPS = auto()


class Anomaly(StrEnum):
    """A deviation between what was acknowledged and what can be read."""

    shown_by: ShownBy

    def __new__(cls, name: str, shown_by: ShownBy = ShownBy.LOG) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.shown_by = shown_by
        return member

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    INCONSISTENT = "inconsistent"
    PHANTOM = "phantom"
    CORRUPT = "corrupt"
    DIVERGED = "diverged", ShownBy.REPLICAS
    GAP = "gap", ShownBy.REPLICAS
    UNSEEN = "unseen"
    ABORTED_READ = "aborted-read", ShownBy.TRANSACTIONS
    ZOMBIE_COMMIT = "zombie-commit", ShownBy.TRANSACTIONS
    HANGING_TRANSACTION = "hanging-transaction", ShownBy.TRANSACTIONS
    UNPROCESSED = "unprocessed", ShownBy.CONSUMERS
    REPROCESSED = "reprocessed", ShownBy.CONSUMERS
    REPLAYED = "replayed", ShownBy.CONSUMERS
    POLL_SKIP = "poll-skip", ShownBy.CONSUMERS
    NONMONOTONIC_POLL = "nonmonotonic-poll", ShownBy.CONSUMERS
    READ_THEN_GONE = "read-then-gone", ShownBy.READS
    MISPLACED_READ = "misplaced-read", ShownBy.READS
    UNDELIVERED = "undelivered", ShownBy.SHARE_GROUPS
    OVER_DELIVERED = "over-delivered", ShownBy.SHARE_GROUPS
    DELIVERED_AFTER_ACCEPT = "delivered-after-accept", ShownBy.SHARE_GROUPS
    ARCHIVED_UNPROCESSED = "archived-unprocessed", ShownBy.SHARE_GROUPS
    DEAD_LETTER_MISSING = "dead-letter-missing", ShownBy.SHARE_GROUPS
    REDELIVERED = "redelivered", ShownBy.SHARE_GROUPS
    UNORDERED = "unordered", ShownBy.SHARE_GROUPS


def _shown_by(tables: ShownBy) -> tuple[Anomaly, ...]:
    return tuple(anomaly for anomaly in Anomaly if anomaly.shown_by is tables)


OF_LOG = _shown_by(ShownBy.LOG)
OF_REPLICAS = _shown_by(ShownBy.REPLICAS)
OF_TRANSACTIONS = _shown_by(ShownBy.TRANSACTIONS)
OF_CONSUMERS = _shown_by(ShownBy.CONSUMERS)
OF_READS = _shown_by(ShownBy.READS)
OF_SHARE_GROUPS = _shown_by(ShownBy.SHARE_GROUPS)

#: Anomalies that need more tables than the ledger and the final log.
OF_CLIENTS = (*OF_TRANSACTIONS, *OF_CONSUMERS, *OF_READS, *OF_SHARE_GROUPS)

#: Anomalies with a prediction. `unseen` has none: Kafka does not cause it.
PREDICTED = tuple(one for one in (*OF_LOG, *OF_REPLICAS) if one is not Anomaly.UNSEEN)
