"""The input and the states of the search: configuration, budgets, partition, replicas.

Only perturbations are counted. Steps that heal (restarts, unfencing, fetches, metadata, a replica
that joins the ISR) are free and may happen at any time, so the model has no notion of speed. Sets
of records and of replicas are bitmasks; replicas are numbered in assignment order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import ClassVar, NamedTuple

from ackproof_model.budgets import SearchBudget
from ackproof_model.configuration import Acks, Profile
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import Broker, Controller
from ackproof_model.replication.state import initial as full_isr

#: Epochs and versions are packed into four bits.
LARGEST_EPOCH = 15


@dataclass(frozen=True, kw_only=True)
class Budgets(SearchBudget):
    """The limits of the perturbations; the search is exhaustive within them.

    records: how many are written.
    kills: SIGKILL; the log stays (page cache).
    power_losses: SIGKILL, and the log keeps any prefix of what was appended.
    clean_stops: controlled shutdown, SIGTERM.
    shrinks: the leader removes a lagging follower from the ISR (its fetches were late for
        replica.lag.time.max.ms; the records it lags by need not be modelled).
    fencings: the controller loses contact to a running broker.
    leader_moves: the controller elects another member of the ISR by request.
    reassignments: requests that the replicas move to other brokers, and cancellations. That new
        replicas join, that it completes and that logs are deleted costs nothing.
    always_lagging: shrinks cost nothing, and so may happen any number of times. The search still
    ends, unless they raise the leader epoch (`Profile.shrink_bumps_epoch` with KRaft).
    outside_isr: only brokers outside the ISR lose power.
    """

    KINDS: ClassVar = (
        *("kills", "power_losses", "clean_stops", "shrinks", "fencings", "leader_moves"),
        "reassignments",
    )

    records: int = 1
    kills: int = 0
    power_losses: int = 0
    clean_stops: int = 0
    shrinks: int = 0
    fencings: int = 0
    leader_moves: int = 0
    reassignments: int = 0
    always_lagging: bool = False
    outside_isr: bool = False

    def cost(self, kind: int) -> tuple[int, ...]:
        """Return which budgets a perturbation of a kind reduces, by their index."""
        return () if self.free(kind) else (kind, len(self.KINDS))

    def free(self, kind: int) -> bool:
        return self.always_lagging and self.KINDS[kind] == "shrinks"


@dataclass(frozen=True, kw_only=True)
class AdversaryModel:
    """One partition's configuration, the rules of its version, and the adversary's budgets.

    unclean_election: elections may be unclean, by a setting or by request. None for the version's
    default (unclean before 0.11), as for elr_enabled (4.0 has ELR off, and may switch it on).
    flush_every_record: log.flush.interval.messages=1, so a power loss takes nothing.
    reduction: False searches every state (see `adversary.successors`).
    spare_brokers: how many brokers have no replica at first.
    targets: the replicas that a reassignment may ask for; () for as many as now, in every order.
    misses_epochs: a leader may miss that another one has led; without, it learns of each in turn.
        A request that waits meanwhile is answered later, as is one that a producer sends again.
    balanced: the first replica is elected by itself, which costs nothing
        (`auto.leader.rebalance.enable`).
    start: the state in which the search begins, with the budgets of this model; None for a full ISR
    and empty logs. `Budgets.records` counts the records in its logs, too.
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
    spare_brokers: int = 0
    targets: tuple[tuple[int, ...], ...] = ()
    misses_epochs: bool = False
    balanced: bool = False
    start: State | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= 5:
            raise ValueError(f"replicas is {self.replicas}: it must be from 1 to 5")
        if self.brokers > 5:
            raise ValueError(f"spare_brokers is {self.spare_brokers}: 5 brokers at most")
        if self.moves:
            self._check_moves()
        if self.min_insync_replicas < 1:
            raise ValueError(
                f"min_insync_replicas is {self.min_insync_replicas}: it must be at least 1"
            )
        Profile.of(self.kafka_version)

    def _check_moves(self) -> None:
        least = min(self.replicas, *map(len, self.requests))
        if self.profile.zookeeper:
            raise ValueError("reassignments are modelled with KRaft only")
        if least < self.min_insync_replicas:
            raise ValueError(
                f"min_insync_replicas is {self.min_insync_replicas}: reassignments are modelled "
                f"with at least as many replicas, not {least}"
            )

    @property
    def brokers(self) -> int:
        return self.replicas + self.spare_brokers

    @cached_property
    def moves(self) -> bool:
        """Whether replicas may move."""
        moved = self.start is not None and self.start.controller.assignment is not None
        return moved or self.budgets.reassignments > 0

    @cached_property
    def requests(self) -> tuple[tuple[int, ...], ...]:
        """The replicas that a reassignment may ask for."""
        return self.targets or tuple(permutations(range(self.brokers), self.replicas))

    @cached_property
    def profile(self) -> Profile:
        return Profile.of(self.kafka_version)

    @cached_property
    def policy(self) -> Policy:
        return Policy(
            replicas=self.brokers,
            min_insync_replicas=self.min_insync_replicas,
            acks=self.acks,
            unclean_election=self.profile.unclean_by_default
            if self.unclean_election is None
            else self.unclean_election,
            elr=self.profile.elr if self.elr_enabled is None else self.elr_enabled,
            profile=self.profile,
            in_flight=True,
        )


class Writes(NamedTuple):
    """How many records were written, and the set of acked records."""

    records: int
    acked: int


class State(NamedTuple):
    """One state of the search.

    left: what is left of the budgets.
    """

    controller: Controller
    brokers: tuple[Broker, ...]
    writes: Writes
    left: tuple[int, ...]


def initial(model: AdversaryModel) -> State:
    left = model.budgets.left
    if model.start is not None:
        return model.start._replace(left=left)
    spare = model.spare_brokers if model.moves else None
    return State(*full_isr(model.replicas, spare=spare), Writes(0, 0), left)
