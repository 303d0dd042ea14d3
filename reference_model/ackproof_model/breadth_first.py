"""Breadth-first search of all that a specification allows, for the shortest way to each anomaly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)
Label = TypeVar("Label")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[Label, State]):
    """What a search found.

    ways: by anomaly, a shortest way to it, as (label, state after it). states: how many were
    stored. complete: whether all were searched, so that an anomaly that is not in `ways` is
    impossible.
    """

    ways: Mapping[str, tuple[tuple[Label, State], ...]]
    states: int
    complete: bool


def explore(
    start: State,
    successors: Callable[[State], Iterable[tuple[Label, State]]],
    anomalies: Callable[[State], Iterable[str]],
    *,
    wanted: Collection[str] = (),
    max_states: int = sys.maxsize,
) -> Found[Label, State]:
    """Search all states from `start`, until all `wanted` anomalies are found, or no room is left.

    Without `wanted`, all states are searched.
    """
    before: dict[State, tuple[State, Label] | None] = {start: None}
    first: dict[str, State] = {}
    level = [start]
    while level and len(before) <= max_states:
        following = []
        for state in level:
            for anomaly in anomalies(state):
                first.setdefault(anomaly, state)
            if wanted and first.keys() >= set(wanted):
                return Found(ways=_ways(before, first), states=len(before), complete=True)
            for label, after in successors(state):
                if after not in before:
                    before[after] = (state, label)
                    following.append(after)
        level = following
    return Found(ways=_ways(before, first), states=len(before), complete=not level)


def _ways(
    before: Mapping[State, tuple[State, Label] | None], first: Mapping[str, State]
) -> dict[str, tuple[tuple[Label, State], ...]]:
    return {anomaly: _way(before, state) for anomaly, state in first.items()}


def _way(
    before: Mapping[State, tuple[State, Label] | None], state: State
) -> tuple[tuple[Label, State], ...]:
    way = []
    while (step := before[state]) is not None:
        way.append((step[1], state))
        state = step[0]
    return tuple(reversed(way))
