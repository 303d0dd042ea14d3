"""What planned elections and moved replicas add to the stored searches, which leave both out.

A leader that misses an epoch: it hands over and leads again before it has applied that another
broker led in between, and keeps the log ends of its followers, one of which has truncated since
(`Partition.makeLeader`). A removed member: a replica that a reassignment has removed stays eligible
(KIP-966, `PartitionChangeBuilder.maybePopulateTargetElr`), and its broker has deleted the log.

Both rules were read off the exact search, which finds each (`AdversaryModel.misses_epochs`,
`Budgets.reassignments`); `tests/unit/reference_model/worst_case/test_moves_and_elections.py`
compares them with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ackproof_model.configuration import Profile
from ackproof_model.perturbations import Counts
from ackproof_model.worst_case.answer import misses_an_epoch
from ackproof_model.worst_case.minima import Minimum, Question, counts_of

#: So many failures besides lag lose nothing by a missed epoch.
_FEW = 2
#: The searches with moves; `ci/lab/moves` makes them.
FILE = Path(__file__).with_name("moves.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to a loss that needs the right moment or order.

    reason: why records are lost, as a clause. at_risk: which records. steps: a sentence each.
    """

    reason: str
    at_risk: str
    steps: tuple[str, ...]


MISSED_EPOCH = Way(
    reason="a leader that missed an epoch acks what a follower has truncated",
    at_risk="records that were sent shortly before a planned election and acked after the next one",
    steps=(
        "Broker A leads, and B and C are in the ISR. A has records that C has fetched and B has "
        "not.",
        "A planned election makes B the leader. A is late to apply that; C truncates to B's log.",
        "B ends or hands over, and A is elected again. It still counts what C had fetched, and "
        "acks those records.",
        "A ends or hands over before C has fetched from it.",
        "C is elected from the ISR without the acked records: they are lost.",
    ),
)
REMOVED_MEMBER = Way(
    reason="a replica that a move has removed stays eligible, and is elected with an empty log",
    at_risk="every record that was acked before",
    steps=(
        "The followers of broker A fall behind, and leave the ISR.",
        "A's replica is moved to D. D catches up, and A deletes its log; A stays an eligible "
        "leader replica.",
        "The replica is moved back to A, whose log is empty now.",
        "D, which leads, ends before A has caught up.",
        "A is elected as an eligible leader replica; the others truncate their logs to its empty "
        "log.",
    ),
)
HANDED_OVER = Way(
    reason="the leader is moved away",
    at_risk="records that the leader had acked and no follower had fetched",
    steps=(
        "The leader acks a record as soon as it has appended it.",
        "The replicas are moved to other brokers, and another one is elected.",
        "It leads without the record, which the former leader deletes with its log.",
    ),
)


def may_miss_an_epoch(question: Question, counts: Counts, *, balanced: bool) -> bool:
    """Whether a leader may miss an epoch and a record be lost by it, or that is not known.

    A partition that moves has one replica more meanwhile, and may get another preferred one.
    """
    if counts.without_shrinks <= _FEW:
        return False
    moving = counts.reassignments > 0
    elects = balanced and moving and not counts.leader_moves
    elected = replace(counts, leader_moves=1) if elects else counts
    return misses_an_epoch(question.replicas + moving, elected, balanced=balanced)


def loses_by_missed_epoch(
    question: Question, counts: Counts, *, events: int, balanced: bool
) -> bool:
    """Whether the exact search loses a record by a missed epoch.

    events: how many failures end a broker, depose it or move replicas; all brokers of a rack end
    together. Without an election that somebody asks for, three brokers end: after the first the
    balancer elects. ZooKeeper mode, in which each change is sent by itself, was not searched.
    """
    if events < 3 or Profile.of(question.kafka_version).zookeeper:
        return False
    elected = counts.leader_moves > 0 or counts.ends > 2
    return elected and misses_an_epoch(question.replicas, counts, balanced=balanced)


def removals(question: Question) -> int:
    """Return how many reassignments make a removed replica eligible; 0 if none do.

    From 4.3 on two are enough. Before, the first must be cancelled, which is a third (KAFKA-15665).
    With min.insync.replicas=1 the ELR is empty as long as there is a leader.
    """
    if not question.elr or question.min_insync_replicas == 1:
        return 0
    return 3 if Profile.of(question.kafka_version).completes_with_all else 2


@cache
def moving_key(question: Question) -> str:
    """Return the key of the searches with moves; versions with the same rules share it."""
    rules = Profile.of(question.kafka_version)
    waits = ["completes with all"] if rules.completes_with_all else []
    fewer = ["fewer with all"] if rules.smaller_completes_with_all else []
    return " ".join([question.key, *waits, *fewer])


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """A search without a loss: at most these perturbations, `in_all` together.

    elections: leaders may miss epochs. balanced: and the first replica is elected by itself.
    """

    limits: Counts
    in_all: int
    states: int
    elections: bool = False
    balanced: bool = False

    def covers(self, counts: Counts) -> bool:
        events = counts.total if counts.shrinks < math.inf else counts.without_shrinks
        return events <= self.in_all and counts.within(self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Losing:
    """The smallest numbers with moves that lose a record, a shortest way, and its kind if rare.

    balanced: only if the first replica is elected by itself.
    """

    found: Minimum
    way: Way | None = None
    balanced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A search that did not end within so many states, as `Searched` otherwise."""

    limits: Counts
    states: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WithMoves:
    """What is stored for one set of rules and one size of a partition."""

    searched: tuple[Searched, ...] = ()
    losing: tuple[Losing, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()


#: The kinds of rare losses, as the file names them.
WAYS: Mapping[str, Way] = {"missed epoch": MISSED_EPOCH, "removed member": REMOVED_MEMBER}


@cache
def stored() -> dict[str, WithMoves]:
    """Return the stored searches by `moving_key`."""
    found = json.loads(FILE.read_text(encoding="utf-8"))["searches"]
    return {
        key: WithMoves(
            searched=tuple(
                Searched(
                    limits=counts_of(one["limits"]),
                    in_all=one["in_all"],
                    states=one["states"],
                    elections=one.get("elections", False),
                    balanced=one.get("balanced", False),
                )
                for one in of_key.get("searched", ())
            ),
            losing=tuple(
                Losing(
                    found=Minimum(
                        counts=counts_of(one["budget"]), steps=tuple(map(tuple, one["steps"]))
                    ),
                    way=WAYS.get(one.get("way", "")),
                    balanced=one.get("balanced", False),
                )
                for one in of_key.get("losing", ())
            ),
            unfinished=tuple(
                Unfinished(limits=counts_of(one["limits"]), states=one["states"])
                for one in of_key.get("unfinished", ())
            ),
        )
        for key, of_key in found.items()
    }


def searched_with_moves(question: Question, counts: Counts, *, balanced: bool) -> bool:
    """Whether these moves and other failures were searched without a loss."""
    if not counts.reassignments:
        return False
    missing = may_miss_an_epoch(question, counts, balanced=balanced)
    return any(
        one.covers(counts)
        and (one.elections or not missing)
        and (one.balanced or not (missing and balanced))
        for one in stored().get(moving_key(question), WithMoves()).searched
    )


def lost_with_moves(question: Question, counts: Counts, *, balanced: bool) -> Losing | None:
    """Return the shortest stored loss that these moves and other failures allow."""
    if not counts.reassignments:
        return None
    known = stored().get(moving_key(question), WithMoves()).losing
    return min(
        (
            one
            for one in known
            if one.found.counts.within(counts) and (balanced or not one.balanced)
        ),
        key=lambda one: len(one.found.steps),
        default=None,
    )
