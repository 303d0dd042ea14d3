"""Searches every state that an adversary reaches within its budgets, and lists their pairs.

Nothing is left out: the search goes on after a loss, and uses no reduction
(`AdversaryModel.reduction`). States are packed (`adversary.packing`).

The steps are listed afterwards. Each step of `adversary.successors` reads one broker and either the
controller or the writes, or it reads two brokers. So the parts that occur together in some state
give the steps, and the controllers at which they are possible.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ackproof_model.adversary.explorer import Explorer, Tails
from ackproof_model.adversary.moves import moves, restart, writes
from ackproof_model.adversary.packing import BROKER_BITS
from ackproof_model.adversary.state import AdversaryModel, State
from ackproof_model.adversary.successors import KINDS, successors
from ackproof_model.coverage.pairs import Pair, Shape, pair_of, shape_of
from ackproof_model.replication.replica import fetch
from ackproof_model.replication.state import NOBODY, Broker, Controller, Label

#: The memory that a search needs for each state, at most: it holds two levels unpacked.
BYTES_A_STATE = 400

#: The bits of a number in an array.
_BITS = 64

_MASK = (1 << BROKER_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Everything that an adversary reaches.

    states: their number. controller_states: the number of states of the controller, which also
    tell the fenced and the stopping brokers. complete: False if the limit of states ended the
    search; then shapes and pairs are those of the states so far.
    """

    model: AdversaryModel
    states: int
    controller_states: int
    shapes: frozenset[Shape]
    pairs: frozenset[Pair]
    complete: bool


def reached(model: AdversaryModel, *, most_states: int = sys.maxsize) -> Reached:
    """Return all pairs and shapes that the adversary reaches within its budgets.

    most_states: the search ends before it expands more. Raises EpochOverflowError if there are more
    leader epochs or ISR changes than a packed state can hold.
    """
    model = replace(model, reduction=False)
    explorer = Explorer(model)
    parts = _Parts(explorer)
    head, tail = explorer.start
    level: Tails = defaultdict(set, {head: {tail}})
    fits = explorer.packing.model.brokers * BROKER_BITS <= _BITS
    seen: defaultdict[int, list[Iterable[int]]] = defaultdict(list)
    states = 0
    while level:
        states += sum(map(len, level.values()))
        if states > most_states:
            break
        following: Tails = defaultdict(set)
        for head, tails in level.items():
            seen[head].append(array("Q", tails) if fits else tuple(tails))
            parts.add(head, tails)
            for lost in explorer.expand(head, tails, following):
                _expand_lost(explorer, explorer.read(head, lost), following)
        level = _new(following, seen)
    controllers = parts.controllers()
    return Reached(
        model=model,
        states=states,
        controller_states=len({_without_counters(one) for one in controllers}),
        shapes=frozenset(map(shape_of, controllers)),
        pairs=frozenset(parts.pairs()),
        complete=not level,
    )


def _expand_lost(explorer: Explorer, state: State, following: Tails) -> None:
    """Add the successors of a state that lost acked records, where `Explorer.expand` ends."""
    for _, after in successors(explorer.packing.model, state):
        head, tail = explorer.pack(after)
        following[head].add(tail)


def _new(following: Tails, seen: defaultdict[int, list[Iterable[int]]]) -> Tails:
    """Return the states that no earlier level has."""
    for head, tails in following.items():
        for earlier in seen.get(head, ()):
            tails.difference_update(earlier)
    return defaultdict(set, {head: tails for head, tails in following.items() if tails})


def _without_counters(controller: Controller) -> Controller:
    return controller._replace(epoch=0, version=0)


class _Parts:
    """The parts of states that occur together in some state, by the head of the states."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._shifts = [number * BROKER_BITS for number in range(explorer.packing.model.brokers)]
        #: The number and value of a broker.
        self._brokers: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        #: The number and value of a broker, and of the leader that it knows.
        self._followers: defaultdict[int, set[tuple[int, int, int, int]]] = defaultdict(set)

    def add(self, head: int, tails: Iterable[int]) -> None:
        leaders = self._explorer.brokers.leaders
        brokers, followers = self._brokers[head], self._followers[head]
        for tail in tails:
            own = [tail >> shift & _MASK for shift in self._shifts]
            brokers.update(enumerate(own))
            for number, value in enumerate(own):
                leader = leaders[value] - 1
                if leader not in (NOBODY, number):
                    followers.add((number, value, leader, own[leader]))

    def controllers(self) -> set[Controller]:
        return {self._explorer.read(head, 0).controller for head in self._brokers}

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs of all steps; some come more than once."""
        values, policy = self._explorer.brokers.values, self._explorer.packing.model.policy
        for head, brokers in self._brokers.items():
            state = self._explorer.read(head, 0)  # of whose brokers nothing is read
            now = state.controller
            for number, value in brokers:
                for label, after in self._of_broker(state, number, values[value]):
                    yield pair_of(label, now, after)
            for number, value, leader, theirs in self._followers[head]:
                fetched = fetch(policy, values[value], number, values[theirs], leader)
                if fetched is not None:
                    yield pair_of((fetched[0],), now, now)

    def _of_broker(
        self, state: State, number: int, broker: Broker
    ) -> Iterator[tuple[Label, Controller]]:
        """Yield the steps of one broker with the controller, and with the producer."""
        model, now = self._explorer.packing.model, state.controller
        for label, _, _ in writes(model, broker, number, state.writes):
            yield label, now
        for label, after, _ in moves(model, now, broker, number):
            yield label, after
        started = restart(model, now, broker, number)
        if started is not None:
            yield started[0], started[1]
        for kind, perturb in enumerate(KINDS):
            if model.budgets.free(kind) or (state.left[kind] and state.left[-1]):
                for label, after, _ in perturb(model, now, broker, number):
                    yield label, after
