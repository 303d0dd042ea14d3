"""Breadth-first search of the states of a specification, from any state.

`reachable` yields the states, the nearest first. `explore` searches them for a shortest trace to
each goal, and for the goals of every final state.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")
Label = TypeVar("Label")


@dataclass(slots=True, eq=False)
class Reached(Generic[Label, State]):
    """A reached state. before, label: the state and the step that led to it, None at the start."""

    state: State
    depth: int = 0
    before: Reached[Label, State] | None = None
    label: Label | None = None

    @property
    def trace(self) -> tuple[tuple[Label, State], ...]:
        """A shortest trace to the state, as (label, state after it)."""
        trace, reached = [], self
        while reached.before is not None and reached.label is not None:
            trace.append((reached.label, reached.state))
            reached = reached.before
        return tuple(reversed(trace))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Generic[Label, State]):
    """The result of a search.

    traces: by goal, a shortest trace to it, as (label, state after it). states: the number of
    stored states. complete: whether the search reached its end; then a goal that is not in `traces`
    is impossible. certain: the goals of every final state.
    """

    traces: Mapping[str, tuple[tuple[Label, State], ...]]
    states: int
    complete: bool
    certain: frozenset[str] = frozenset()


def reachable(
    start: State,
    successors: Callable[[State], Iterable[tuple[Label, State]]],
    *,
    key: Callable[[State], Hashable] | None = None,
    depth: int = sys.maxsize,
) -> Iterator[Reached[Label, State]]:
    """Yield each state within `depth` steps of `start` once, the nearest first.

    key: what distinguishes two states, if not all that they hold. Steps are taken only as far as
    the iterator is consumed.
    """
    first: Reached[Label, State] = Reached(start)
    known, queue = {start if key is None else key(start)}, deque([first])
    yield first
    while queue and queue[0].depth < depth:
        before = queue.popleft()
        for label, after in successors(before.state):
            name = after if key is None else key(after)
            if name not in known:
                known.add(name)
                reached = Reached(after, before.depth + 1, before, label)
                queue.append(reached)
                yield reached


def explore(
    start: State,
    successors: Callable[[State], Iterable[tuple[Label, State]]],
    goals: Callable[[State], Iterable[str]],
    *,
    final: Callable[[State, Collection[State]], bool] | None = None,
    until: Collection[str] = (),
    max_states: int = sys.maxsize,
) -> SearchResult[Label, State]:
    """Search the states reachable from `start`, at most `max_states`.

    The search ends early once all goals of `until`, if any, are found. final: whether a state is
    final, given its successors; then `SearchResult.certain` is decided, too.
    """
    certain: frozenset[str] | None = None

    def stepping(state: State) -> Iterable[tuple[Label, State]]:
        nonlocal certain
        if final is None:
            return successors(state)
        steps = list(successors(state))
        if final(state, [after for _, after in steps]):
            own = frozenset(goals(state))
            certain = own if certain is None else certain & own
        return steps

    first: dict[str, Reached[Label, State]] = {}
    states, complete = 0, True
    for reached in reachable(start, stepping):
        states += 1
        for goal in goals(reached.state):
            first.setdefault(goal, reached)
        undecided = final is not None and certain != frozenset()
        if until and first.keys() >= set(until) and not undecided:
            break
        if states > max_states:
            complete = False
            break
    return SearchResult(
        traces={goal: reached.trace for goal, reached in first.items()},
        states=states,
        complete=complete,
        certain=certain if certain and complete else frozenset(),
    )
