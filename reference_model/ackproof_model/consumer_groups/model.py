"""The input of a search of committed offsets: commit mode, the adversary's budgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ackproof_model.budgets import SearchBudget
from ackproof_model.configuration import Profile

#: When offsets are committed. before, after: before or after processing the polled records. auto:
#: by librdkafka's timer, which commits the records handed to the application. auto-on-poll: by the
#: Java client, which commits previously polled records at the next poll. transaction: in one
#: transaction with the output of processing (KIP-98). never: not at all.
CommitMode = Literal["before", "after", "auto", "auto-on-poll", "transaction", "never"]


@dataclass(frozen=True, kw_only=True)
class OffsetBudgets(SearchBudget):
    """The limits of the perturbations, and the number of records.

    crashes: the member that owns the partition is killed.
    rebalances: it is removed from the group without its knowledge (its session or
        max.poll.interval.ms ended).
    delays: a commit gets no response; it may arrive at any later time, or never.
    failed_commits: a commit fails; the member stops unless `continues_after_refused_commit`.
    failed_effects: processing fails after the record had its effect (a forwarded record that was
        written and not acked); the member processes it again.
    failovers: the group's coordinator moves to another broker, and no committed record is lost.
    stale_fetches: a new owner begins at an offset that was committed earlier: the broker that
        answered is no longer the coordinator and does not know it.
    offset_losses: the group's coordinator moves and the newest committed offsets are lost, or all
        (a `__consumer_offsets` with one replica, or an unclean election).
    log_losses: the partition loses records at its end that consumers may have read; later, others
        take their offsets.
    """

    KINDS: ClassVar = (
        "crashes",
        "rebalances",
        "delays",
        "failed_commits",
        "failed_effects",
        "failovers",
        "stale_fetches",
        "offset_losses",
        "log_losses",
    )

    records: int = 2
    crashes: int = 0
    rebalances: int = 0
    delays: int = 0
    failed_commits: int = 0
    failed_effects: int = 0
    failovers: int = 0
    stale_fetches: int = 0
    offset_losses: int = 0
    log_losses: int = 0


@dataclass(frozen=True, kw_only=True)
class OffsetModel:
    """How a group commits, and the adversary's budgets.

    asynchronous: a member polls again before the polled records are processed (by other threads).
    continues_after_refused_commit: it reports a refused commit and continues.
    reset: auto.offset.reset.
    killed_in_poll: the first member is certainly killed while it processes its first poll, which
        has several records: some of them have had their effect.
    same_id: with transactions, the new owner of the partition has the transactional.id of the old
        one: one id for each partition, as before KIP-447.

    Raises ValueError for an unknown mode or reset, and for transactions before 0.11.
    """

    kafka_version: str
    commit: CommitMode
    asynchronous: bool = False
    continues_after_refused_commit: bool = False
    reset: Literal["earliest", "latest"] = "earliest"
    killed_in_poll: bool = False
    same_id: bool = False
    budgets: OffsetBudgets = OffsetBudgets()

    def __post_init__(self) -> None:
        if self.commit not in get_args(CommitMode):
            raise ValueError(
                f"commit {self.commit!r} is not one of {', '.join(get_args(CommitMode))}"
            )
        if self.reset not in ("earliest", "latest"):
            raise ValueError(f"reset {self.reset!r} is not 'earliest' or 'latest'")
        if self.commit == "transaction" and not self.profile.transactions:
            raise ValueError(
                f"kafka_version {self.kafka_version} has no transactions: use 0.11 or later"
            )

    @cached_property
    def profile(self) -> Profile:
        return Profile.of(self.kafka_version)

    @cached_property
    def checks_transactions(self) -> bool:
        """Whether the group refuses a transaction's offsets of an older generation."""
        return self.profile.group_fencing

    @cached_property
    def fences_ids(self) -> bool:
        """Whether the new owner has the old one's transactional.id, and so fences it."""
        return self.same_id

    @cached_property
    def waits(self) -> bool:
        """Whether the new owner waits for offsets in open transactions."""
        return self.profile.group_fencing

    @cached_property
    def notices_truncation(self) -> bool:
        """Whether a member that runs goes back if the log became shorter than its position."""
        return self.profile.clients_truncate
