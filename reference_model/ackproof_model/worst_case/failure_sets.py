"""The smallest sets of failures that lose an acked record, and the largest that lose none.

Failures are an operator's events; each becomes perturbations of the adversary in any order and at
any time (`perturbations`). A set of failures loses if it allows a stored minimum, or by the rules
of `moves`, which the stored searches leave out. It loses nothing if searches or an argument exclude
every loss. Otherwise it is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from itertools import combinations_with_replacement
from operator import or_

from ackproof_model.configuration import Profile
from ackproof_model.perturbations import Counts
from ackproof_model.worst_case.answer import keeps_everything
from ackproof_model.worst_case.minima import (
    LOSE_POWER,
    Minima,
    Minimum,
    Question,
    few,
    minima,
)
from ackproof_model.worst_case.moves import (
    HANDED_OVER,
    MISSED_EPOCH,
    REMOVED_MEMBER,
    Way,
    loses_by_missed_epoch,
    lost_with_moves,
    may_miss_an_epoch,
    removals,
    searched_with_moves,
)

#: An operator's failures, sorted, each as often as it happens.
Failures = tuple[str, ...]

CRASH, CLEAN_RESTART, LEADER_MOVE = "crash", "clean_restart", "leader_move"
REASSIGNMENT = "reassignment"
POWER_LOSS, DISK_REPLACED, LAG = "power_loss", "disk_replaced", "lag"
RECREATED = "recreated"
LOST_SESSION, RACK, CONTROLLERS = "lost_session", "rack", "controllers"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
    """What decides how many perturbations an event is.

    lag: how many replicas leave the ISR. in_rack: how many a rack has. flushed, emptied: as in
    `Exposed`.
    """

    lag: float
    in_rack: int
    flushed: bool
    emptied: frozenset[str]

    def perturbations(self, event: str) -> Counts:
        return Counts(power_losses=1) if event in self.emptied else _PERTURBATIONS[event](self)

    def power_losses(self, brokers: int) -> Counts:
        return Counts(kills=brokers) if self.flushed else Counts(power_losses=brokers)


#: The perturbations of one event, from routine to rare. An event that is not here has no answer.
_PERTURBATIONS: Mapping[str, Callable[[_Surroundings], Counts]] = {
    CLEAN_RESTART: lambda around: Counts(clean_stops=1),
    RECREATED: lambda around: Counts(clean_stops=1),
    LEADER_MOVE: lambda around: Counts(leader_moves=1),
    REASSIGNMENT: lambda around: Counts(reassignments=1),
    LAG: lambda around: Counts(shrinks=around.lag),
    LOST_SESSION: lambda around: Counts(fencings=1),
    CRASH: lambda around: Counts(kills=1),
    POWER_LOSS: lambda around: around.power_losses(1),
    DISK_REPLACED: lambda around: Counts(power_losses=1),
    RACK: lambda around: around.power_losses(around.in_rack),
    CONTROLLERS: lambda around: Counts(),  # no broker ends; `_excluded` asks for them
}
EVENTS = tuple(_PERTURBATIONS)
#: The largest number of replicas that is searched.
_SEARCHED = 3
#: How many failures a set has at most, but for the loss of all brokers' logs.
_MOST = 3

_AT_ONCE = "every replica's log may lose what was not flushed"
_UNFLUSHED = "records that no replica had flushed to its disk"
_ONLY_THERE = "no other replica has what the leader acked alone in the ISR"
_ACKED_ALONE = "records acked while the leader was alone in the ISR"
_EMPTIED = "every replica's disk is empty"
_ENDED = "every replica's log ends with its pod or container"
_UNANSWERED = "with acks=0 a send counts as acked, whether or not a broker received it"
_IN_FLIGHT = "records that were sent while no leader received them"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposed:
    """One partition and its surroundings. Answers are stored by identity.

    question: the rules, with acks=1 for acks=0. acks_0: the producer does not wait for an answer.
    acks_1: a leader acks alone, also the leader of a sole replica, for which the question has
    acks=all. balanced: the preferred replica is elected by itself after its broker has returned.
    movable: whether there are more brokers than replicas, to which replicas may be moved.
    flushed: every record is flushed before its ack, so that only a lost disk removes it. racks: the
    number of racks with replicas, 0 if unknown. combined: the number of nodes that are brokers and
    controllers. recreates: whether brokers' pods or containers may be recreated. emptied: the
    events after which a broker returns with an empty log, besides DISK_REPLACED.
    """

    question: Question
    acks_0: bool = False
    acks_1: bool = False
    balanced: bool = False
    movable: bool = True
    flushed: bool = False
    racks: int = 0
    combined: int = 0
    recreates: bool = False
    emptied: frozenset[str] = frozenset()

    def empties(self, failures: Failures) -> bool:
        """Whether a broker returns with an empty log after one of these failures."""
        return DISK_REPLACED in failures or not self.emptied.isdisjoint(failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A smallest set of failures that loses an acked record.

    certain: every order of the failures loses it. found: the shortest way; None if the loss follows
    from an argument: then `reason` and `at_risk` describe it, or `way`.
    """

    failures: Failures
    certain: bool = False
    found: Minimum | None = None
    reason: str = ""
    at_risk: str = ""
    way: Way | None = None

    @property
    def rare(self) -> bool:
        """Whether the failures lose only at the right moment or in the right order."""
        return self.way in (MISSED_EPOCH, REMOVED_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FailureSets:
    """The smallest losing sets, the largest safe ones, and the smallest undecided ones.

    `failure_sets` returns one object for one question, so that answers are stored by identity.
    """

    losing: tuple[Loss, ...]
    survived: tuple[Failures, ...]
    undecided: tuple[Failures, ...]

    def keeps(self, failures: Failures) -> bool:
        """Whether it is known that these failures lose nothing."""
        return tuple(sorted(failures)) in _kept(self)

    def rarely_loses(self, failures: Failures) -> bool:
        """Whether these failures lose, but only in ways that are rare."""
        parts = _parts(tuple(sorted(failures)))
        lost = [one for one in self.losing if tuple(sorted(one.failures)) in parts]
        return bool(lost) and all(one.rare for one in lost)


@cache
def _kept(sets: FailureSets) -> frozenset[Failures]:
    """Return all sets of failures, each sorted, that are known to lose nothing."""
    return frozenset().union(*(_parts(tuple(sorted(one))) for one in sets.survived))


@cache
def failure_sets(exposed: Exposed) -> FailureSets:
    """Return the answer for all sets of up to three failures, and for known larger ones.

    These are the loss of all logs, and moves away and back while followers lag.
    """
    larger = {one.failures: one for one in (*_all_logs(exposed), *_removed(exposed))}
    known = minima(exposed.question)
    every = _counted(
        tuple(dict.fromkeys((*_sets_of(exposed), *larger, *_moved_and_back(exposed)))),
        lag=exposed.question.lag,
        in_rack=in_a_rack(exposed),
        flushed=exposed.flushed,
        emptied=exposed.emptied,
    )
    stored = _Stored(known, every) if known else None
    losing: list[Loss] = []
    undecided: list[Failures] = []
    safe: list[int] = []
    lost = not_decided = 0
    for at, (failures, counts) in enumerate(every.sets):
        parts = every.parts[at]
        if parts & lost:
            continue
        found = stored.lost_by(at) if stored else None
        loss = (
            _loss(exposed, failures, found)
            or larger.get(failures)
            or _alone(exposed, failures)
            or _moved(exposed, failures, counts)
        )
        searched = found is None and stored is not None and stored.covers(at)
        if loss:
            losing.append(loss)
            lost |= 1 << at
        elif _excluded(exposed, failures, counts, searched=searched):
            safe.append(at)
        elif not parts & not_decided and len(failures) <= _MOST:
            undecided.append(failures)
            not_decided |= 1 << at
    smaller = reduce(or_, (every.parts[at] & ~(1 << at) for at in safe), 0)
    return FailureSets(
        losing=tuple(losing),
        survived=tuple(every.sets[at][0] for at in safe if not smaller >> at & 1),
        undecided=tuple(undecided),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Counted:
    """Sets of failures, the small ones first, with their perturbations; groups are bit sets.

    parts: the sets within each set, itself included.
    """

    sets: tuple[tuple[Failures, Counts], ...]
    parts: tuple[int, ...]

    def where(self, holds: Callable[[Counts], bool]) -> int:
        return sum(1 << at for at, (_, counts) in enumerate(self.sets) if holds(counts))


@cache
def _counted(
    sets: tuple[Failures, ...], *, lag: float, in_rack: int, flushed: bool, emptied: frozenset[str]
) -> _Counted:
    around = _Surroundings(lag=lag, in_rack=in_rack, flushed=flushed, emptied=emptied)
    return _Counted(
        sets=tuple((one, _perturbations(one, around)) for one in sets),
        parts=_parts_among(sets),
    )


@cache
def _parts_among(sets: tuple[Failures, ...]) -> tuple[int, ...]:
    """Return which of these sets are within each, as bit sets."""
    numbers = {failures: at for at, failures in enumerate(sets)}
    return tuple(
        sum(1 << numbers[part] for part in _parts(failures) if part in numbers) for failures in sets
    )


class _Stored:
    """The stored results about numbered sets of failures. Many questions share each comparison."""

    def __init__(self, known: Minima, every: _Counted) -> None:
        self._losing = [(_allowing(every, one.counts), one) for one in known.losing]
        self._covered = _few(every, known.searched)
        for one in known.safe:
            self._covered |= _within(every, one)

    def lost_by(self, number: int) -> Minimum | None:
        """Return the shortest loss that a set allows (`Minima.lost_by`)."""
        for sets, one in self._losing:
            if sets >> number & 1:
                return one
        return None

    def covers(self, number: int) -> bool:
        """Whether the perturbations of a set were searched (`Minima.covers`)."""
        return bool(self._covered >> number & 1)


@cache
def _allowing(every: _Counted, least: Counts) -> int:
    return every.where(least.within)


@cache
def _within(every: _Counted, most: Counts) -> int:
    return every.where(lambda counts: counts.within(most))


@cache
def _few(every: _Counted, searched: int) -> int:
    return every.where(partial(few, searched=searched))


@cache
def _sets(replicas: int, *, racks: bool, recreates: bool, movable: bool) -> tuple[Failures, ...]:
    """Return the sets of up to three failures, the small ones first."""
    may_be = ((RACK, racks), (RECREATED, recreates), (REASSIGNMENT, movable))
    left_out = {event for event, may in may_be if not may}
    if replicas == 1:
        left_out |= {LAG, LEADER_MOVE}
    events = [one for one in EVENTS if one not in left_out]
    return tuple(
        failures
        for number in range(1, _MOST + 1)
        for failures in combinations_with_replacement(events, number)
    )


def largest_sets(exposed: Exposed) -> tuple[Failures, ...]:
    return tuple(one for one in _sets_of(exposed) if len(one) == _MOST)


def _sets_of(exposed: Exposed) -> tuple[Failures, ...]:
    return _sets(
        exposed.question.replicas,
        racks=exposed.racks > 0,
        recreates=exposed.recreates,
        movable=exposed.movable,
    )


@cache
def _parts(failures: Failures) -> frozenset[Failures]:
    """Return all sets of failures within a set, itself included."""
    smaller = {failures[:at] + failures[at + 1 :] for at in range(len(failures))}
    return frozenset([failures]).union(*map(_parts, smaller))


def perturbations(exposed: Exposed, failures: Iterable[str]) -> Counts:
    """Return the perturbations of these failures; the loss of controllers adds none."""
    around = _Surroundings(
        lag=exposed.question.lag,
        in_rack=in_a_rack(exposed),
        flushed=exposed.flushed,
        emptied=exposed.emptied,
    )
    return _perturbations(tuple(failures), around)


@cache
def _perturbations(failures: Failures, around: _Surroundings) -> Counts:
    total = Counts()
    for event in failures:
        total = total.plus(around.perturbations(event))
    return total


def in_a_rack(exposed: Exposed) -> int:
    """Return how many replicas a rack has at most (`StripedReplicaPlacer`)."""
    return math.ceil(exposed.question.replicas / max(exposed.racks, 1))


def _loss(exposed: Exposed, failures: Failures, found: Minimum | None) -> Loss | None:
    """Return the way in which the failures lose a record; found: the stored one."""
    if exposed.acks_0 and not {LAG, CONTROLLERS}.issuperset(failures):
        return Loss(failures=failures, reason=_UNANSWERED, at_risk=_IN_FLIGHT)
    if found is None:
        return _among_three(exposed, failures)
    if not _realistic(failures, found):
        return None
    certain = exposed.question.replicas == len(failures) == 1 and exposed.empties(failures)
    return Loss(failures=failures, found=found, certain=certain)


def _alone(exposed: Exposed, failures: Failures) -> Loss | None:
    """Return the loss of records that a leader acked while it was alone in the ISR."""
    taken = exposed.empties(failures) or (POWER_LOSS in failures and not exposed.flushed)
    if exposed.question.min_insync_replicas == 1 and LAG in failures and taken:
        return Loss(failures=failures, reason=_ONLY_THERE, at_risk=_ACKED_ALONE)
    return None


def _moved(exposed: Exposed, failures: Failures, counts: Counts) -> Loss | None:
    """Return the loss by a planned election or a move that the stored searches leave out."""
    if REASSIGNMENT in failures and exposed.acks_1:
        return Loss(failures=failures, way=HANDED_OVER)
    if known := lost_with_moves(exposed.question, counts, balanced=exposed.balanced):
        return Loss(failures=failures, found=None if known.way else known.found, way=known.way)
    events = _events(failures)
    if loses_by_missed_epoch(exposed.question, counts, events=events, balanced=exposed.balanced):
        return Loss(failures=failures, way=MISSED_EPOCH)
    return None


@cache
def _events(failures: Failures) -> int:
    return sum(one not in _NO_EVENT for one in failures)


def _excluded(exposed: Exposed, failures: Failures, counts: Counts, *, searched: bool) -> bool:
    """Whether searches or an argument exclude that the failures lose a record.

    searched: their numbers were searched without a loss.
    """
    question = exposed.question
    with_moves = searched_with_moves(question, counts, balanced=exposed.balanced)
    missing = may_miss_an_epoch(question, counts, balanced=exposed.balanced)
    if missing and not with_moves:
        return False
    # The argument covers any number of other perturbations, but for a removed replica in the ELR.
    moved_twice = question.elr and counts.reassignments > 1
    argued = not counts.power_losses and not moved_twice and _keeps_without_power_loss(exposed)
    searched = searched or with_moves
    if CONTROLLERS in failures or _ends_majority(exposed, counts):
        # Restarted controllers have no sessions: a broker may lead again without being fenced.
        return argued and not missing
    if exposed.empties(failures) and len(failures) > 1 and _forgets(question):
        return False
    # Lag alone deposes no leader, and truncates no log.
    return searched or argued or {LAG}.issuperset(failures)


@cache
def _keeps_without_power_loss(exposed: Exposed) -> bool:
    return bool(keeps_everything(exposed.question, Counts()))


def _ends_majority(exposed: Exposed, counts: Counts) -> bool:
    """Whether a majority of the controllers may end, if they are brokers, too."""
    ends = counts.kills + counts.power_losses + counts.clean_stops
    return exposed.combined > 0 and ends > (exposed.combined - 1) // 2


def _forgets(question: Question) -> bool:
    """Whether a new directory empties the ELR, which the searched rules leave out."""
    return question.elr and Profile.of(question.kafka_version).directory_drops_elr


def _among_three(exposed: Exposed, failures: Failures) -> Loss | None:
    """Return how three of more than three replicas lose a record, without the other replicas.

    With lag the others leave the ISR first, which still has min.insync.replicas members. With
    acks=1 they stay in the ISR but do not fetch. In both cases they come last in elections.
    """
    question = exposed.question
    if question.replicas <= _SEARCHED or question.min_insync_replicas > _SEARCHED:
        return None
    if RACK in failures or (question.acks == "all" and LAG not in failures):
        return None
    three = replace(exposed, question=replace(question, replicas=_SEARCHED))
    known = minima(three.question)
    found = known.lost_by(perturbations(three, failures)) if known else None
    return Loss(failures=failures, found=found) if found else None


def _realistic(failures: Failures, found: Minimum) -> bool:
    """Whether no broker loses power twice on the found way, if a rack loses it at once."""
    if RACK not in failures or found.counts.power_losses <= failures.count(POWER_LOSS) + 1:
        return True
    lost = [numbers[0] for action, *numbers in found.steps if action == LOSE_POWER]
    return len(set(lost)) == len(lost)


#: Failures that neither end nor depose a broker.
_NO_EVENT = (LAG, CONTROLLERS)
#: Moves away and back while followers lag, and an end of the new leader.
_MOVED_AND_BACK: tuple[Failures, ...] = (
    (CLEAN_RESTART, REASSIGNMENT, REASSIGNMENT, LAG),
    (REASSIGNMENT, REASSIGNMENT, LAG, LOST_SESSION),
    (REASSIGNMENT, REASSIGNMENT, LAG, CRASH),
)


def _moved_and_back(exposed: Exposed) -> tuple[Failures, ...]:
    return _MOVED_AND_BACK if exposed.movable and exposed.question.replicas > 1 else ()


def _removed(exposed: Exposed) -> Iterator[Loss]:
    """Yield the losses by a replica that a move has removed, and that stays eligible."""
    number = removals(exposed.question)
    for failures in _moved_and_back(exposed) if number else ():
        moves = (REASSIGNMENT,) * (number - failures.count(REASSIGNMENT))
        yield Loss(failures=(*failures[:1], *moves, *failures[1:]), way=REMOVED_MEMBER)


def _all_logs(exposed: Exposed) -> Iterator[Loss]:
    """Yield the loss of every replica's log; no rule of replication helps against it."""
    replicas = exposed.question.replicas
    if not exposed.flushed:
        yield Loss(failures=(POWER_LOSS,) * replicas, reason=_AT_ONCE, at_risk=_UNFLUSHED)
        if exposed.racks:
            racks = (RACK,) * min(exposed.racks, replicas)
            yield Loss(failures=racks, reason=_AT_ONCE, at_risk=_UNFLUSHED)
    yield Loss(failures=(DISK_REPLACED,) * replicas, reason=_EMPTIED, at_risk="all records")
    for event in sorted(exposed.emptied):
        yield Loss(failures=(event,) * replicas, reason=_ENDED, at_risk="all records")
