"""A log replicated by a majority quorum, like KRaft's own (KIP-595), for comparison with ISRs.

A record is committed when a majority of the voters holds it in the leader's epoch. A leader is
elected by a majority of voters whose logs are not longer than its own. Followers fetch, and
truncate where they diverge, as followers of partitions do. Voters are interchangeable, so states
that differ only in their order are one state.

Only perturbations and elections are counted; steps that heal are free, as in `adversary`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from ackproof_model.breadth_first import explore

#: A search stores at most so many states.
MAX_STATES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumModel:
    """The voters, whether they fsync before they answer (KRaft's do), and the budgets.

    kills: SIGKILLs. power_losses: SIGKILLs after which a log that was not fsynced keeps any prefix.
    elections: how often a leader may be elected. records: how many are written.
    """

    voters: int
    fsync: bool = True
    kills: int = 0
    power_losses: int = 0
    elections: int = 2
    records: int = 1

    def __post_init__(self) -> None:
        if self.voters < 1:
            raise ValueError(f"voters is {self.voters}: it must be at least 1")

    @property
    def majority(self) -> int:
        return self.voters // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumResult:
    """The result of a search; trace: a shortest trace to a loss, empty if there is none."""

    model: QuorumModel
    trace: tuple[str, ...]
    states: int
    complete: bool

    @property
    def lost(self) -> bool:
        return bool(self.trace)

    @property
    def impossible(self) -> bool:
        """Whether none can be lost, within these bounds."""
        return self.complete and not self.lost


class Voter(NamedTuple):
    """One voter: whether it runs and leads, the epoch it knows, its log (numbers of records)."""

    alive: bool
    leads: bool
    epoch: int
    log: tuple[int, ...]


class QuorumState(NamedTuple):
    """One state of the search.

    epochs: the epoch of each written record. acked: a bitmask of records. left: the budgets for
    kills, power losses and elections.
    """

    voters: tuple[Voter, ...]
    epochs: tuple[int, ...]
    acked: int
    left: tuple[int, int, int]


def initial(model: QuorumModel) -> QuorumState:
    """Return the initial state: the first voter leads epoch 0, and all know it."""
    follower = Voter(True, False, 0, ())
    voters = (Voter(True, True, 0, ()), *(follower,) * (model.voters - 1))
    left = (model.kills, model.power_losses, model.elections)
    return QuorumState(tuple(sorted(voters)), (), 0, left)


def search(model: QuorumModel, *, max_states: int = MAX_STATES) -> QuorumResult:
    found = explore(
        initial(model),
        lambda state: successors(model, state),
        lambda state: ["lost"] if lost(state) else [],
        until=["lost"],
        max_states=max_states,
    )
    return QuorumResult(
        model=model,
        trace=tuple(what for what, _ in found.traces.get("lost", ())),
        states=found.states,
        complete=found.complete,
    )


def lost(state: QuorumState) -> int:
    newest = max(voter.epoch for voter in state.voters)
    for voter in state.voters:
        if voter.leads and voter.alive and voter.epoch == newest:
            return state.acked & ~sum(1 << record for record in voter.log)
    return 0


def writable(model: QuorumModel, dead: int) -> bool:
    """Whether records can still be committed while `dead` voters are down."""
    return model.voters - dead >= model.majority


def successors(model: QuorumModel, state: QuorumState) -> Iterator[tuple[str, QuorumState]]:
    """Yield every step from a state, as (name, state after it)."""
    kills, power_losses, _ = state.left
    for number, voter in enumerate(state.voters):
        if voter.alive:
            if voter.leads:
                yield from _leading(model, state, number, voter)
            else:
                yield from _following(state, number, voter)
            yield from _election(model, state, number, voter)
            down = voter._replace(alive=False, leads=False)
            if kills:
                left = (kills - 1, *state.left[1:])
                yield "kill", _with(state, number, down)._replace(left=left)
            if power_losses:
                least = len(voter.log) if model.fsync else 0
                left = (kills, power_losses - 1, state.left[2])
                for kept in range(least, len(voter.log) + 1):
                    cut = down._replace(log=voter.log[:kept])
                    yield f"lose power, keep {kept}", _with(state, number, cut)._replace(left=left)
        else:
            yield "restart", _with(state, number, voter._replace(alive=True))


def _leading(
    model: QuorumModel, state: QuorumState, number: int, leader: Voter
) -> Iterator[tuple[str, QuorumState]]:
    """Yield a leader's steps: append, and commit what a majority holds in its epoch.

    Records of earlier epochs are committed only with one of its own (`LeaderState`, KIP-595).
    """
    record = len(state.epochs)
    if record < model.records:
        longer = leader._replace(log=(*leader.log, record))
        yield "write", _with(state, number, longer)._replace(epochs=(*state.epochs, leader.epoch))
    for end, own in enumerate(leader.log, start=1):
        if state.epochs[own] != leader.epoch:
            continue
        prefix = leader.log[:end]
        having = sum(
            voter.epoch == leader.epoch and voter.log[:end] == prefix for voter in state.voters
        )
        mask = sum(1 << committed for committed in prefix)
        if having >= model.majority and mask & ~state.acked:
            yield "commit", state._replace(acked=state.acked | mask)


def _following(
    state: QuorumState, number: int, follower: Voter
) -> Iterator[tuple[str, QuorumState]]:
    """Yield a follower's steps: learn of a newer epoch, truncate, fetch one record."""
    for leader in state.voters:
        if not (leader.leads and leader.alive) or leader.epoch < follower.epoch:
            continue
        if leader.epoch > follower.epoch:
            yield "learn", _with(state, number, follower._replace(epoch=leader.epoch))
            continue
        same = _agreed(leader.log, follower.log)
        if same < len(follower.log):
            yield "truncate", _with(state, number, follower._replace(log=follower.log[:same]))
        elif same < len(leader.log):
            longer = follower._replace(log=leader.log[: same + 1])
            yield "fetch", _with(state, number, longer)


def _election(
    model: QuorumModel, state: QuorumState, number: int, candidate: Voter
) -> Iterator[tuple[str, QuorumState]]:
    """Yield the elections that a voter wins: a majority runs, none of which has a longer log.

    Longer means a later epoch of the last record, or more records (`RaftUtil`, KIP-595). A voter
    that granted its vote knows the new epoch, so it accepts nothing from an older leader.
    """
    *_, elections = state.left
    if not elections:
        return
    epoch = max(voter.epoch for voter in state.voters) + 1
    others = [
        other
        for other, voter in enumerate(state.voters)
        if other != number and voter.alive and _reach(state, voter) <= _reach(state, candidate)
    ]
    for granting in combinations(others, model.majority - 1):
        voters = list(state.voters)
        for other in granting:
            voters[other] = voters[other]._replace(epoch=epoch, leads=False)
        voters[number] = candidate._replace(epoch=epoch, leads=True)
        left = (*state.left[:2], elections - 1)
        yield "elect", state._replace(voters=tuple(sorted(voters)), left=left)


def _reach(state: QuorumState, voter: Voter) -> tuple[int, int]:
    return (state.epochs[voter.log[-1]] if voter.log else -1, len(voter.log))


def _agreed(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the length of the common prefix of two logs."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def _with(state: QuorumState, number: int, voter: Voter) -> QuorumState:
    voters = (*state.voters[:number], voter, *state.voters[number + 1 :])
    return state._replace(voters=tuple(sorted(voters)))
