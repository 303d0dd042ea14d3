"""Breadth-first search of a specification's states for a shortest trace to each anomaly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)
Label = TypeVar("Label")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Generic[Label, State]):
    """The result of a search.

    traces: by anomaly, a shortest trace to it, as (label, state after it). states: the number of
    stored states. complete: whether the search reached its end; then an anomaly that is not in
    `traces` is impossible.
    """

    traces: Mapping[str, tuple[tuple[Label, State], ...]]
    states: int
    complete: bool


def explore(
    start: State,
    successors: Callable[[State], Iterable[tuple[Label, State]]],
    anomalies: Callable[[State], Iterable[str]],
    *,
    until: Collection[str] = (),
    max_states: int = sys.maxsize,
) -> SearchResult[Label, State]:
    """Search the states reachable from `start`, at most `max_states`.

    The search ends early once all anomalies of `until`, if any, are found.
    """
    before: dict[State, tuple[State, Label] | None] = {start: None}
    first: dict[str, State] = {}
    level = [start]
    while level and len(before) <= max_states:
        following = []
        for state in level:
            for anomaly in anomalies(state):
                first.setdefault(anomaly, state)
            if until and first.keys() >= set(until):
                return SearchResult(
                    traces=_traces(before, first), states=len(before), complete=True
                )
            for label, after in successors(state):
                if after not in before:
                    before[after] = (state, label)
                    following.append(after)
        level = following
    return SearchResult(traces=_traces(before, first), states=len(before), complete=not level)


def _traces(
    before: Mapping[State, tuple[State, Label] | None], first: Mapping[str, State]
) -> dict[str, tuple[tuple[Label, State], ...]]:
    return {anomaly: _trace(before, state) for anomaly, state in first.items()}


def _trace(
    before: Mapping[State, tuple[State, Label] | None], state: State
) -> tuple[tuple[Label, State], ...]:
    trace = []
    while (step := before[state]) is not None:
        trace.append((step[1], state))
        state = step[0]
    return tuple(reversed(trace))
