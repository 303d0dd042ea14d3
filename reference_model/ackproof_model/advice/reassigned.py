"""What a request to move the replicas of a partition does to it, and what may follow.

The steps are those of `replication.controller`, the port of Kafka's reassignment: the request, the
added replicas that join the ISR one after the other, and the completion. The rest of the ISR is
assumed to stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from ackproof_model.configuration import Profile
from ackproof_model.replication.controller import (
    can_cancel,
    can_reassign,
    cancel,
    change,
    reassign,
)
from ackproof_model.replication.policy import Policy, effective_min_isr
from ackproof_model.replication.state import NOBODY, Assignment, Controller, members

Brokers = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A partition as the controller has it. leader: None without one. running: the live brokers.

    adding, removing: of a move in progress. elr: the eligible leader replicas (KIP-966).
    """

    replicas: Brokers
    isr: Brokers
    leader: int | None
    running: frozenset[int]
    adding: Brokers = ()
    removing: Brokers = ()
    elr: Brokers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides beside the placement. elr: the feature is on; None for the version's default."""

    kafka_version: str
    min_insync_replicas: int
    unclean_election: bool = False
    elr: bool | None = None

    @property
    def with_elr(self) -> bool:
        return Profile.of(self.kafka_version).elr if self.elr is None else self.elr


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a request, or a cancellation, leads to.

    refused: Kafka refuses it, so that nothing changes. waits_for: the brokers that must join the
    ISR before the move is complete; empty if it is so at once. completes: whether it ever is.
    replicas, isr: once it is. left_eligible: brokers that stay eligible then although they have no
    replica. eligible_again: brokers that get a replica and are eligible from before, although their
    logs were deleted. gone: members of the ISR that lose their replica.
    """

    refused: bool = False
    waits_for: Brokers = ()
    completes: bool = True
    replicas: Brokers = ()
    isr: Brokers = ()
    left_eligible: Brokers = ()
    eligible_again: Brokers = ()
    gone: Brokers = ()


def moved(now: Placement, target: Brokers | None, rules: Rules) -> Moved:
    """Return what a move to these replicas leads to; of None, what a cancellation does."""
    brokers = _Brokers.of(now, target or ())
    policy = Policy(
        replicas=len(brokers.ids),
        min_insync_replicas=rules.min_insync_replicas,
        acks="all",
        unclean_election=rules.unclean_election,
        elr=rules.with_elr,
        profile=Profile.of(rules.kafka_version),
    )
    before = brokers.controller(now)
    asked = None if target is None else tuple(map(brokers.ids.index, target))
    accepted = can_cancel(policy, before) if asked is None else can_reassign(policy, before, asked)
    if not accepted:
        return Moved(refused=True, completes=False, replicas=now.replicas, isr=now.isr)
    after = cancel(policy, before) if asked is None else reassign(policy, before, asked)
    waits_for: list[int] = []
    while _moving(after):
        assignment = after.assignment
        assert assignment is not None
        outside = [
            one
            for one in assignment.replicas
            if not (after.isr | assignment.removing | after.fenced) >> one & 1
        ]
        joining = sorted(outside, key=lambda one: not assignment.adding >> one & 1)
        if not joining:
            break
        waits_for.append(joining[0])
        after = change(policy, after, after.isr | 1 << joining[0])
    assert after.assignment is not None
    kept = after.assignment.replicas
    eligible = members(after.elr)
    first = brokers.controller(now)
    deleted = {one for one in members(first.elr) if not first.assigned(one)}
    return Moved(
        waits_for=brokers.named(waits_for),
        completes=not _moving(after),
        replicas=brokers.named(kept),
        isr=brokers.named(members(after.isr)),
        left_eligible=brokers.named(one for one in eligible if one not in kept),
        eligible_again=brokers.named(one for one in deleted if one in kept),
        gone=brokers.named(one for one in members(first.isr) if one not in kept),
    )


def _moving(controller: Controller) -> bool:
    assignment = controller.assignment
    return bool(assignment and (assignment.adding or assignment.removing))


def enough(now: Moved, rules: Rules) -> bool:
    """Whether the ISR is large enough for writes with acks=all once a move is complete."""
    least = rules.min_insync_replicas
    if Profile.of(rules.kafka_version).hw_freeze:
        least = effective_min_isr(least, len(now.replicas))
    return len(now.isr) >= least


@dataclass(frozen=True, slots=True)
class _Brokers:
    """The brokers' ids by the numbers that the model gives them."""

    ids: Brokers

    @classmethod
    def of(cls, now: Placement, target: Brokers) -> _Brokers:
        return cls(tuple(dict.fromkeys(chain(now.replicas, target, now.elr))))

    def controller(self, now: Placement) -> Controller:
        fenced = [one for one in self.ids if one not in now.running]
        return Controller(
            NOBODY if now.leader is None else self.ids.index(now.leader),
            1,
            self._mask(now.isr),
            self._mask(now.elr),
            NOBODY,
            self._mask(fenced),
            0,
            assignment=Assignment(
                tuple(map(self.ids.index, now.replicas)),
                adding=self._mask(now.adding),
                removing=self._mask(now.removing),
            ),
        )

    def _mask(self, brokers: Iterable[int]) -> int:
        return sum(1 << self.ids.index(one) for one in brokers)

    def named(self, numbers: Iterable[int]) -> Brokers:
        return tuple(self.ids[number] for number in numbers)
