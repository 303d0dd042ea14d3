"""The anomalies of a run, and which of them need replicas, transactions or consumers."""

from __future__ import annotations

from enum import StrEnum


class Anomaly(StrEnum):
    """A deviation between what was acknowledged and what can be read."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    INCONSISTENT = "inconsistent"
    PHANTOM = "phantom"
    CORRUPT = "corrupt"
    DIVERGED = "diverged"
    GAP = "gap"
    UNSEEN = "unseen"
    ABORTED_READ = "aborted-read"
    ZOMBIE_COMMIT = "zombie-commit"
    HANGING_TRANSACTION = "hanging-transaction"
    UNPROCESSED = "unprocessed"
    REPROCESSED = "reprocessed"
    POLL_SKIP = "poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    READ_THEN_GONE = "read-then-gone"
    MISPLACED_READ = "misplaced-read"


#: Anomalies with a prediction. `unseen` has none: Kafka does not cause it.
PREDICTED = (
    Anomaly.LOST,
    Anomaly.DUPLICATED,
    Anomaly.REORDERED,
    Anomaly.INCONSISTENT,
    Anomaly.PHANTOM,
    Anomaly.CORRUPT,
    Anomaly.DIVERGED,
    Anomaly.GAP,
)

#: Anomalies that only the replicas' segments show; not counted without segments.
OF_REPLICAS = (Anomaly.DIVERGED, Anomaly.GAP)

#: Anomalies of transactions; not counted in runs without transactions.
OF_TRANSACTIONS = (
    Anomaly.ABORTED_READ,
    Anomaly.ZOMBIE_COMMIT,
    Anomaly.HANGING_TRANSACTION,
)

#: Anomalies that only consumers show; not counted in runs without consumers.
OF_CONSUMERS = (
    Anomaly.UNPROCESSED,
    Anomaly.REPROCESSED,
    Anomaly.POLL_SKIP,
    Anomaly.NONMONOTONIC_POLL,
)

#: Anomalies that only consumers or the probe show.
OF_READS = (Anomaly.READ_THEN_GONE, Anomaly.MISPLACED_READ)

#: Anomalies that need more tables than the ledger and the final log.
OF_CLIENTS = (*OF_TRANSACTIONS, *OF_CONSUMERS, *OF_READS)
