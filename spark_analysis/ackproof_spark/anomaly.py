"""The anomalies that a run may show, by the part of a scenario that can show them."""

from __future__ import annotations

from enum import StrEnum


class Anomaly(StrEnum):
    """One named deviation between what was acknowledged and what can be read."""

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


#: Anomalies about which a prediction is made (`unseen` is not Kafka's doing but ours).
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

#: Anomalies that only the replicas' own segments can show: not counted where these are absent.
OF_REPLICAS = (Anomaly.DIVERGED, Anomaly.GAP)

#: Anomalies of transactions: not counted where there were none.
OF_TRANSACTIONS = (
    Anomaly.ABORTED_READ,
    Anomaly.ZOMBIE_COMMIT,
    Anomaly.HANGING_TRANSACTION,
)

#: Anomalies that only consumers can show: not counted where there were none.
OF_CONSUMERS = (
    Anomaly.UNPROCESSED,
    Anomaly.REPROCESSED,
    Anomaly.POLL_SKIP,
    Anomaly.NONMONOTONIC_POLL,
)

#: Anomalies that only consumers or the probe can show.
OF_READS = (Anomaly.READ_THEN_GONE,)

#: Anomalies that the ledger and the final log do not show alone.
OF_CLIENTS = (*OF_TRANSACTIONS, *OF_CONSUMERS, *OF_READS)
