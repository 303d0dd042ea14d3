"""What is asked about committed offsets: the mode, the adversary's budgets, the guards."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, get_args

from ackproof_model.configuration import Profile

#: When offsets are committed. before, after: processing what was polled. auto: by librdkafka's
#: timer, which commits what was handed over. auto-on-poll: by the Java client, which commits what
#: was polled before, when it polls again. transaction: in one transaction with what processing
#: writes (KIP-98). never: not at all.
CommitMode = Literal["before", "after", "auto", "auto-on-poll", "transaction", "never"]

#: The kinds of perturbation.
PERTURBATIONS = ("crashes", "rebalances", "delays", "offset_losses")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetBudgets:
    """How often the adversary may do each thing, and how many records there are.

    crashes: the member that has the partition is killed. rebalances: it is thrown out (a session or
    max.poll.interval.ms that ended), and does not know. delays: a commit is not answered; it may
    arrive at any later time, or never. offset_losses: the group's committed offsets are gone
    (a `__consumer_offsets` with one replica, or an unclean election).
    """

    records: int = 2
    crashes: int = 0
    rebalances: int = 0
    delays: int = 0
    offset_losses: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= 7:
                raise ValueError(f"{field.name} is {value}: it must be from 0 to 7")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChecks:
    """One flag for each guard of committed offsets; False takes it away.

    generation_check: a commit of an older generation is refused (ILLEGAL_GENERATION).
    transaction_generation_check: the same for offsets in a transaction (KIP-447, from 2.5).
    stable_fetch: who takes a partition over waits for transactions that hold offsets of it
        (UNSTABLE_OFFSET_COMMIT, KIP-447, from 2.5).
    id_fencing: who takes a transactional.id over ends its open transaction first (KIP-98).
    atomic: offsets in a transaction count when its records do (KIP-98).
    """

    generation_check: bool = True
    transaction_generation_check: bool = True
    stable_fetch: bool = True
    id_fencing: bool = True
    atomic: bool = True


@dataclass(frozen=True, kw_only=True)
class OffsetModel:
    """How a group commits, and what may happen to it.

    asynchronous: a member polls on before what it polled is processed (other threads do that).
    heedless: it goes on although its commit was refused, as a client may that only reports it.
    reset: auto.offset.reset. same_id: with transactions, whoever takes the partition over has the
    transactional.id of who had it: an id for each partition, as before KIP-447.

    Raises ValueError for a mode or a reset that there is not, and for a version without groups'
    offsets in Kafka (before 0.9).
    """

    kafka_version: str
    commit: CommitMode
    asynchronous: bool = False
    heedless: bool = False
    reset: Literal["earliest", "latest"] = "earliest"
    same_id: bool = False
    budgets: OffsetBudgets = OffsetBudgets()
    checks: OffsetChecks = OffsetChecks()

    def __post_init__(self) -> None:
        if self.commit not in get_args(CommitMode):
            raise ValueError(
                f"commit {self.commit!r} is not one of {', '.join(get_args(CommitMode))}"
            )
        if self.reset not in ("earliest", "latest"):
            raise ValueError(f"reset {self.reset!r} is not 'earliest' or 'latest'")
        if self.commit == "transaction" and not self.profile.leader_epochs:
            raise ValueError(f"Kafka {self.kafka_version} has no transactions: 0.11 and later have")

    @cached_property
    def profile(self) -> Profile:
        """The rules of this version."""
        return Profile.of_any(self.kafka_version)

    @cached_property
    def checks_transactions(self) -> bool:
        """Whether the group refuses a transaction's offsets of an older generation."""
        return self.profile.group_fencing and self.checks.transaction_generation_check

    @cached_property
    def fences_ids(self) -> bool:
        """Whether who takes over takes the transactional.id, too, and so fences who had it."""
        return self.same_id and self.checks.id_fencing

    @cached_property
    def waits(self) -> bool:
        """Whether who takes over waits for a transaction's offsets."""
        return self.profile.group_fencing and self.checks.stable_fetch
