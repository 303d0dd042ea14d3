"""The input and the states of the search: configuration, budgets, partition, replicas.

Only perturbations are counted. Steps that heal (restarts, unfencing, fetches, metadata, a replica
that joins the ISR) are free and may happen at any time, so the model has no notion of speed. A
record is written once; `Writes.epochs` has its leader epoch. Sets of records and of replicas are
bitmasks; replicas are numbered in assignment order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

from ackproof_model.configuration import Acks, Profile
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import NOBODY, Controller, Log

#: Epochs and versions are packed into four bits.
LARGEST_EPOCH = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The limits of the perturbations; the search is exhaustive within them.

    records: how many are written.
    kills: SIGKILL; the log stays (page cache).
    power_losses: SIGKILL, and the log keeps any prefix of what was appended.
    clean_stops: controlled shutdown, SIGTERM.
    shrinks: the leader removes a lagging follower from the ISR (its fetches were late for
        replica.lag.time.max.ms; the records it lags by need not be modelled).
    fencings: the controller loses contact to a running broker.
    in_all: all perturbations together, None for their sum.
    """

    records: int = 1
    kills: int = 0
    power_losses: int = 0
    clean_stops: int = 0
    shrinks: int = 0
    fencings: int = 0
    in_all: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 <= value <= 7:
                raise ValueError(f"{field.name} is {value}: it must be from 0 to 7")
        if self.perturbations > 7:
            raise ValueError(
                f"{self.perturbations} perturbations in all: at most 7 can be searched; set in_all"
            )

    @property
    def perturbations(self) -> int:
        total = sum(self.of_kinds)
        return total if self.in_all is None else min(total, self.in_all)

    @property
    def of_kinds(self) -> tuple[int, ...]:
        """The budget of each kind of `PERTURBATIONS`, in its order."""
        return tuple(getattr(self, kind) for kind in PERTURBATIONS)


#: The kinds of perturbation.
PERTURBATIONS = ("kills", "power_losses", "clean_stops", "shrinks", "fencings")


@dataclass(frozen=True, kw_only=True)
class AdversaryModel:
    """One partition's configuration, the rules of its version, and the adversary's budgets.

    unclean_election, elr_enabled: None for the version's default (unclean before 0.11; 4.0 has ELR
    off, and may switch it on).
    flush_every_record: log.flush.interval.messages=1, so a power loss takes nothing.
    reduction: False searches every state (see `adversary.successors`).
    """

    kafka_version: str
    acks: Acks = "all"
    min_insync_replicas: int = 2
    replicas: int = 3
    unclean_election: bool | None = None
    flush_every_record: bool = False
    elr_enabled: bool | None = None
    budgets: Budgets = Budgets()
    reduction: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= 5:
            raise ValueError(f"replicas is {self.replicas}: it must be from 1 to 5")
        if self.min_insync_replicas < 1:
            raise ValueError(
                f"min_insync_replicas is {self.min_insync_replicas}: it must be at least 1"
            )
        Profile.of(self.kafka_version)

    @cached_property
    def profile(self) -> Profile:
        return Profile.of(self.kafka_version)

    @cached_property
    def policy(self) -> Policy:
        return Policy(
            replicas=self.replicas,
            min_insync_replicas=self.min_insync_replicas,
            acks=self.acks,
            unclean_election=self.profile.unclean_by_default
            if self.unclean_election is None
            else self.unclean_election,
            elr=self.profile.elr if self.elr_enabled is None else self.elr_enabled,
            profile=self.profile,
        )


DOWN, UP, STOPPING = range(3)


class Partition(NamedTuple):
    """What the controller has committed.

    version: stands for the partition epoch; it counts changes since the leader learned of one.
    """

    controller: Controller
    version: int


class Replica(NamedTuple):
    """One broker and its replica.

    clean: it stopped by controlled shutdown (`.kafka_cleanshutdown`). leader, epoch: as far as it
    knows. hw: the high watermark; followers have one before 2.0 only, when they truncate to it.
    truncating: a follower that has to truncate before it fetches (from 0.11 to 2.6). The rest is
    for a leader only. version, isr: the partition version and ISR that it knows. pending: the ISR
    that it has requested (0: no request in flight). start: the start offset of its epoch. ends: the
    followers' log end offsets as of their last fetch (`NOBODY` for none in this epoch). stale: the
    followers that have restarted since their last fetch, or since the request in flight was made.
    """

    status: int
    clean: bool
    log: Log
    leader: int
    epoch: int
    hw: int
    version: int
    isr: int
    pending: int
    start: int
    ends: tuple[int, ...]
    stale: int
    truncating: bool = False

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.status != DOWN

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def records(self) -> int:
        """The set of records that its log holds."""
        return sum(1 << record for record in self.log)


class Writes(NamedTuple):
    """The leader epoch of each written record, and the set of acked records."""

    epochs: tuple[int, ...]
    acked: int


class State(NamedTuple):
    """One state of the search.

    left: what is left of each budget of `PERTURBATIONS`, and of all of them together.
    """

    partition: Partition
    replicas: tuple[Replica, ...]
    writes: Writes
    left: tuple[int, ...]


Label = tuple[str, *tuple[int, ...]]


def initial(model: AdversaryModel) -> State:
    """Return the initial state: full ISR, leader 0, empty logs."""
    n = model.replicas
    leader = Replica(
        UP, False, (), 0, 0, 0, 0, model.policy.everyone, 0, 0, (NOBODY, *(0,) * (n - 1)), 0
    )
    return State(
        Partition(Controller(0, 0, model.policy.everyone, 0, NOBODY, 0, 0), 0),
        (leader, *(follower(n, 0, 0),) * (n - 1)),
        Writes((), 0),
        (*model.budgets.of_kinds, model.budgets.perturbations),
    )


def follower(
    replicas: int, leader: int, epoch: int, *, log: Log = (), hw: int = 0, status: int = UP
) -> Replica:
    return Replica(status, False, log, leader, epoch, hw, 0, 0, 0, 0, (NOBODY,) * replicas, 0)
