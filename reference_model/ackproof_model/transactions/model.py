"""The input of a search of transactions: version, protocol, the adversary's budgets.

Only perturbations are counted. Steps that heal are free and may happen at any time: a client
retries a request without a response, the coordinator sends markers until they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from ackproof_model.budgets import SearchBudget
from ackproof_model.configuration import Profile

#: How transactions are distinguished: 1 by the coordinator's state alone (KIP-98), 2 by an epoch
#: for each transaction (KIP-890; `transaction.version` 2 and a Java client from 4.0; librdkafka
#: uses 1).
Protocol = Literal[1, 2]


#: A producer's requests: add a partition to the transaction, write a record, end the transaction.
RequestKind = Literal["add", "produce", "end"]


@dataclass(frozen=True, kw_only=True)
class TransactionBudgets(SearchBudget):
    """The limits of the perturbations and of the written records.

    transactions: how many are begun in all, each with at most one record in each of `partitions`
        partitions.
    delays: a request of a client gets no response; it may arrive at any later time, or never.
    delayed: the kinds of requests that this may happen to.
    unanswered: a request of a client gets no response; it is carried out at once, or never. This is
        the effect of a broker's death: its requests end with its connections.
    marker_delays: the same for a marker that the coordinator sends.
    restarts: a new producer begins with the same transactional.id; the old one may continue.
    timeouts: the coordinator aborts a transaction that exceeds transaction.timeout.ms.
    failovers: the coordinator's partition gets another leader; requests of the old one may still
        arrive.
    coordinator_losses: a failover that loses committed records of the transaction log: the new
        coordinator loads an older state, or does not know the transactional.id.
    log_losses: a partition loses committed records and markers at its end.
    expirations: the coordinator removes the transactional.id (transactional.id.expiration.ms).
    outages: a partition has no leader while its marker is due.
    """

    KINDS: ClassVar = (
        "delays",
        "unanswered",
        "marker_delays",
        "restarts",
        "timeouts",
        "failovers",
        "coordinator_losses",
        "log_losses",
        "expirations",
        "outages",
    )

    transactions: int = 2
    partitions: int = 2
    delays: int = 0
    delayed: tuple[RequestKind, ...] = ("add", "produce", "end")
    unanswered: int = 0
    marker_delays: int = 0
    restarts: int = 0
    timeouts: int = 0
    failovers: int = 0
    coordinator_losses: int = 0
    log_losses: int = 0
    expirations: int = 0
    outages: int = 0


@dataclass(frozen=True, kw_only=True)
class TransactionModel:
    """One transactional.id under a Kafka version, and the adversary's budgets.

    verification: `transaction.partition.verification.enable` of the brokers.

    Raises ValueError for a version before 0.11, or a protocol that the version does not have.
    """

    kafka_version: str
    protocol: Protocol = 1
    budgets: TransactionBudgets = TransactionBudgets()
    verification: bool = True

    def __post_init__(self) -> None:
        if not self.profile.transactions:
            raise ValueError(
                f"kafka_version {self.kafka_version} has no transactions: use 0.11 or later"
            )
        if self.protocol == 2 and not self.profile.transactions_v2:
            raise ValueError(
                f"kafka_version {self.kafka_version} has no transactions v2: use 4.0 or later"
            )

    @cached_property
    def profile(self) -> Profile:
        return Profile.of(self.kafka_version)

    @cached_property
    def bumps(self) -> bool:
        """Whether each transaction has an epoch of its own (KIP-890 part 2)."""
        return self.protocol == 2

    @cached_property
    def fence_bumps(self) -> int:
        """By how much the epoch grows when the coordinator itself aborts a transaction.

        In 4.0.0 by two: for the fence, and for the abort (KAFKA-19367). It aborts by the cluster's
        protocol, which is 2 there, whatever the client uses.
        """
        return 2 if self.profile.double_bump else 1

    @cached_property
    def pending_first(self) -> bool:
        """Whether due markers are checked before a request's epoch; from 4.0."""
        return self.profile.transactions_v2

    @cached_property
    def verifies(self) -> bool:
        """Whether a log asks the coordinator before a transaction's first record (KIP-890).

        With protocol 2, this adds the partition.
        """
        return self.protocol == 2 or (self.profile.verifies_transactions and self.verification)

    @cached_property
    def compares_open(self) -> bool:
        """Whether an open transaction admits records of its epoch only (KAFKA-18654)."""
        return self.profile.transactions_v2

    @cached_property
    def strict(self) -> bool:
        """Whether a marker must have a newer epoch (KIP-1228)."""
        return self.bumps and self.profile.strict_markers
