"""One state of the partition as the adversary sees it.

A record is written once, by one leader in one epoch, so a log is a sequence of records, and
`Writes.epochs` has their epochs. Sets of records and of replicas are bitmasks; replicas are
numbered in assignment order.
"""

from __future__ import annotations

from typing import NamedTuple

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.replication.state import NOBODY, Controller, Log

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
