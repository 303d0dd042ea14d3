"""The smallest sets of failures that lose an acked record, and the largest that lose none.

Failures are an operator's events; each becomes perturbations of the adversary in any order and at
any time (`budget`). A set loses if a stored search found a loss within its budget. It loses nothing
if searches or an argument exclude every loss. Otherwise it is undecided: also if a leader may miss
an epoch, which the searches leave out (docs/reports-to-kafka/missed-leader-epoch.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement

from ackproof_model.bounds.answer import keeps_everything, misses_an_epoch
from ackproof_model.bounds.losing import Minima, Minimum, Question, minima
from ackproof_model.configuration import Profile
from ackproof_model.exposure import Budget

#: An operator's failures, sorted, each as often as it happens.
Failures = tuple[str, ...]

CRASH, CLEAN_RESTART, LEADER_MOVE = "crash", "clean_restart", "leader_move"
POWER_LOSS, DISK_REPLACED, LAG = "power_loss", "disk_replaced", "lag"
LOST_SESSION, RACK, CONTROLLERS = "lost_session", "rack", "controllers"

#: From routine to rare.
EVENTS = (
    *(CLEAN_RESTART, LEADER_MOVE, LAG, LOST_SESSION, CRASH, POWER_LOSS, DISK_REPLACED),
    *(RACK, CONTROLLERS),
)
#: Events after which a node starts again.
_ENDS = {CRASH, CLEAN_RESTART, POWER_LOSS, DISK_REPLACED}
#: The largest number of replicas that is searched.
_SEARCHED = 3
#: How many failures a set has at most, but for the loss of all brokers' logs.
_MOST = 3

_AT_ONCE = "every replica's log may lose what was not flushed"
_UNFLUSHED = "records that no replica had flushed to its disk"
_ONLY_THERE = "no other replica has what the leader acked alone in the ISR"
_ACKED_ALONE = "records acked while the leader was alone in the ISR"
_EMPTIED = "every replica's disk is empty"
_UNANSWERED = "with acks=0 a send counts as acked, whether or not a broker received it"
_IN_FLIGHT = "records that were sent while no leader received them"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposed:
    """One partition and its surroundings. Answers are stored by identity.

    question: the rules; `acks` is 1 for acks=0, too. acks_0: the producer does not wait for an
    answer. flushed: every record is flushed before its ack, so that only a lost disk takes it.
    racks: over how many racks the replicas are spread, 0 if unknown. combined: the number of nodes
    that are brokers and controllers.
    """

    question: Question
    acks_0: bool = False
    flushed: bool = False
    racks: int = 0
    combined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A smallest set of failures that loses an acked record.

    certain: every order of the failures loses it. found: the shortest way; None if `reason` is an
    argument, and `at_risk` says which records.
    """

    failures: Failures
    certain: bool = False
    found: Minimum | None = None
    reason: str = ""
    at_risk: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSets:
    """The smallest losing sets, the largest safe ones, and the smallest undecided ones."""

    losing: tuple[Loss, ...]
    survived: tuple[Failures, ...]
    undecided: tuple[Failures, ...]

    def keeps(self, failures: Failures) -> bool:
        """Whether it is known that these failures lose nothing."""
        return any(
            all(larger.count(one) >= failures.count(one) for one in failures)
            for larger in self.survived
        )


class _Sets:
    """Sets of failures, the small ones first, with their budgets. Choices of them are bits.

    larger: for each set those that contain it, itself included.
    """

    def __init__(self, sets: Sequence[Failures], budgets: Sequence[Budget]) -> None:
        self.sets, self._budgets = sets, budgets
        self._chosen: dict[object, int] = {}
        numbers = {failures: at for at, failures in enumerate(sets)}
        self.larger = [0] * len(sets)
        for failures, at in numbers.items():
            for part in _parts(failures) & numbers.keys():
                self.larger[numbers[part]] |= 1 << at
        self.every = (1 << len(sets)) - 1
        self.losing_power = _bits(budget.power_losses > 0 for budget in budgets)

    def having(self, *events: str) -> int:
        """Return the sets with any of these events."""
        return self._choice(events, lambda at: not set(events).isdisjoint(self.sets[at]))

    def of_several(self) -> int:
        return self._choice("several", lambda at: len(self.sets[at]) > 1)

    def ending(self, most: int, in_rack: int) -> int:
        """Return the sets after which more brokers have ended."""
        return self._choice((most, in_rack), lambda at: _ends(self.sets[at], in_rack) > most)

    def allowing(self, least: Budget) -> int:
        """Return the sets whose budgets allow another one."""
        return self._choice(least, lambda at: least.within(self._budgets[at]))

    def searched(self, known: Minima) -> int:
        """Return the sets whose budgets were searched."""
        most = known.searched
        found = self._choice(("searched", most), lambda at: self._is_small(at, most))
        for safe in known.safe:
            found |= self._inside(safe)
        return found

    def _is_small(self, at: int, most: int) -> bool:
        return not self._budgets[at].shrinks and self._budgets[at].total <= most

    def missing_an_epoch(self, replicas: int) -> int:
        return self._choice(replicas, lambda at: misses_an_epoch(replicas, self._budgets[at]))

    def _inside(self, most: Budget) -> int:
        return self._choice((most,), lambda at: self._budgets[at].within(most))

    def _choice(self, name: object, chosen: Callable[[int], bool]) -> int:
        if name not in self._chosen:
            self._chosen[name] = _bits(map(chosen, range(len(self.sets))))
        return self._chosen[name]


def _bits(chosen: Iterable[bool]) -> int:
    return sum(1 << at for at, one in enumerate(chosen) if one)


def _members(bits: int) -> Iterator[int]:
    return (at for at in range(bits.bit_length()) if bits >> at & 1)


def _ends(failures: Failures, in_rack: int) -> int:
    return sum(one in _ENDS for one in failures) + failures.count(RACK) * in_rack


@cache
def failure_sets(exposed: Exposed) -> FailureSets:
    """Return the answer for all sets of up to three failures, and for the loss of all logs."""
    logs = {one.failures: one for one in _all_logs(exposed)}
    some = _with_budgets(
        tuple(dict.fromkeys((*_sets_of(exposed), *logs))),
        lag=exposed.question.lag,
        in_rack=in_a_rack(exposed),
        flushed=exposed.flushed,
    )
    known = minima(exposed.question)
    ways = [(one, some.allowing(one.budget)) for one in (known.losing if known else ())]
    found = 0
    for _, sets in ways:
        found |= sets
    losing: list[Loss] = []
    covered = 0
    for at, failures in enumerate(some.sets):
        if covered >> at & 1:
            continue
        way = next((one for one, sets in ways if sets >> at & 1), None) if found >> at & 1 else None
        loss = _loss(exposed, failures, way) or logs.get(failures) or _alone(exposed, failures)
        if loss:
            losing.append(loss)
            covered |= some.larger[at]
    searched = some.searched(known) & ~found if known else 0
    safe = _excluded(exposed, some, searched) & ~covered
    undecided: list[Failures] = []
    for at in _members(some.every & ~covered & ~safe):
        if not covered >> at & 1:
            undecided.append(some.sets[at])
            covered |= some.larger[at]
    return FailureSets(
        losing=tuple(losing),
        survived=tuple(some.sets[at] for at in _members(safe) if some.larger[at] & safe == 1 << at),
        undecided=tuple(undecided),
    )


@cache
def _with_budgets(sets: tuple[Failures, ...], *, lag: float, in_rack: int, flushed: bool) -> _Sets:
    return _Sets(sets, [_budget(one, lag=lag, in_rack=in_rack, flushed=flushed) for one in sets])


@cache
def _sets(replicas: int, *, racks: bool) -> tuple[Failures, ...]:
    """Return the sets of up to three failures, the small ones first."""
    left_out = set() if racks else {RACK}
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
    return _sets(exposed.question.replicas, racks=exposed.racks > 0)


@cache
def _parts(failures: Failures) -> frozenset[Failures]:
    """Return all sets of failures within a set, itself included."""
    smaller = {failures[:at] + failures[at + 1 :] for at in range(len(failures))}
    return frozenset([failures]).union(*map(_parts, smaller))


def budget(exposed: Exposed, failures: Iterable[str]) -> Budget:
    """Return the perturbations of these failures; controllers that are gone add none."""
    lag, in_rack = exposed.question.lag, in_a_rack(exposed)
    return _budget(tuple(failures), lag=lag, in_rack=in_rack, flushed=exposed.flushed)


@cache
def _budget(failures: Failures, *, lag: float, in_rack: int, flushed: bool) -> Budget:
    power = failures.count(POWER_LOSS) + failures.count(RACK) * in_rack
    kept = power if flushed else 0
    return Budget(
        kills=failures.count(CRASH) + kept,
        power_losses=power - kept + failures.count(DISK_REPLACED),
        clean_stops=failures.count(CLEAN_RESTART),
        shrinks=lag * failures.count(LAG) if LAG in failures else 0,
        fencings=failures.count(LOST_SESSION),
        leader_moves=failures.count(LEADER_MOVE),
    )


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
    certain = exposed.question.replicas == 1 and failures == (DISK_REPLACED,)
    return Loss(failures=failures, found=found, certain=certain)


def _alone(exposed: Exposed, failures: Failures) -> Loss | None:
    """Return the loss of what a leader acked alone in the ISR: no election can bring it back."""
    taken = DISK_REPLACED in failures or (POWER_LOSS in failures and not exposed.flushed)
    if exposed.question.min_insync_replicas == 1 and LAG in failures and taken:
        return Loss(failures=failures, reason=_ONLY_THERE, at_risk=_ACKED_ALONE)
    return None


def _excluded(exposed: Exposed, some: _Sets, searched: int) -> int:
    """Return the sets of which searches or an argument exclude that they lose a record.

    searched: those whose budgets were searched without a loss.
    """
    question = exposed.question
    # The argument covers any number of other perturbations.
    argued = some.every & ~some.losing_power if keeps_everything(question, Budget()) else 0
    without_quorum = some.having(CONTROLLERS)
    if exposed.combined:
        without_quorum |= some.ending((exposed.combined - 1) // 2, in_a_rack(exposed))
    forgotten = some.having(DISK_REPLACED) & some.of_several() if _forgets(question) else 0
    # Lag alone deposes no leader, and truncates no log.
    harmless = some.every & ~some.having(*(one for one in EVENTS if one != LAG))
    # Restarted controllers have no sessions: a broker may lead again without being fenced.
    with_quorum = some.every & ~without_quorum & ~forgotten
    excluded = without_quorum & argued | with_quorum & (harmless | searched | argued)
    return excluded & ~some.missing_an_epoch(question.replicas)


def _forgets(question: Question) -> bool:
    """Whether a new directory empties the ELR, which the searched rules leave out."""
    return question.elr and Profile.of(question.kafka_version).directory_drops_elr


def _among_three(exposed: Exposed, failures: Failures) -> Loss | None:
    """Return how three of more replicas lose a record while the others have no part in it.

    With lag the others leave the ISR first; it still has min.insync.replicas members. With acks=1
    they stay in the ISR and do not fetch. In both cases they come last in elections.
    """
    question = exposed.question
    if question.replicas <= _SEARCHED or question.min_insync_replicas > _SEARCHED:
        return None
    if RACK in failures or (question.acks == "all" and LAG not in failures):
        return None
    three = replace(exposed, question=replace(question, replicas=_SEARCHED))
    known = minima(three.question)
    found = known.lost_by(budget(three, failures)) if known else None
    return Loss(failures=failures, found=found) if found else None


def _realistic(failures: Failures, found: Minimum) -> bool:
    """Whether the brokers of a rack lose power at once in the found way, if it needs several."""
    if RACK not in failures or found.budget.power_losses <= failures.count(POWER_LOSS) + 1:
        return True
    lost = [step.split()[2] for step in found.steps if step.startswith("lose power")]
    return len(set(lost)) == len(lost)


def _all_logs(exposed: Exposed) -> Iterator[Loss]:
    """Yield the loss of every replica's log; no rule of replication helps against it."""
    replicas = exposed.question.replicas
    if not exposed.flushed:
        yield Loss(failures=(POWER_LOSS,) * replicas, reason=_AT_ONCE, at_risk=_UNFLUSHED)
        if exposed.racks:
            racks = (RACK,) * min(exposed.racks, replicas)
            yield Loss(failures=racks, reason=_AT_ONCE, at_risk=_UNFLUSHED)
    yield Loss(failures=(DISK_REPLACED,) * replicas, reason=_EMPTIED, at_risk="all records")
