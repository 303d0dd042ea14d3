"""Leader, epoch and ISR of each partition over time, from the `partition_states` table."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ackproof.report.data.tables import RunTables, micros_of

#: Maximum number of lanes in a plot.
MAX_LANES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A period in which the state of a partition did not change; seconds since the origin."""

    start: float
    end: float
    leader: int
    epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Leader, epoch and ISR of one partition over time."""

    topic: str
    partition: int
    replicas: int
    spans: tuple[Span, ...]


def times_of_states(tables: RunTables) -> tuple[int | None, int | None]:
    """Return the first and last time of a state, in microseconds since 1970."""
    times = [micros_of(row["at"]) for row in tables.rows("partition_states", ["at"])]
    return min(times, default=None), max(times, default=None)


def read_lanes(
    tables: RunTables, origin: datetime | None, end: float, *, lossy: Set[tuple[str, int]]
) -> tuple[tuple[Lane, ...], int]:
    """Return the lanes to show, those in `lossy` first, and the number of hidden lanes."""
    columns = ("at", "metadata_offset", "topic", "partition", "leader", "leader_epoch")
    if tables.note_absence("partition_states") or origin is None:
        return (), 0
    rows = tables.rows("partition_states", (*columns, "replicas", "isr", "elr"))
    rows.sort(key=lambda row: row["metadata_offset"])
    by_partition: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    lanes = [
        Lane(
            topic=topic,
            partition=partition,
            replicas=max(len(row["replicas"]) for row in states),
            spans=_spans(states, origin, end),
        )
        for (topic, partition), states in by_partition.items()
    ]
    lanes.sort(key=lambda lane: ((lane.topic, lane.partition) not in lossy, -len(lane.spans)))
    shown = sorted(lanes[:MAX_LANES], key=lambda lane: (lane.topic, lane.partition))
    return tuple(shown), len(lanes) - len(shown)


def _spans(states: list[dict[str, Any]], origin: datetime, end: float) -> tuple[Span, ...]:
    """Merge equal successive states; states that ended before the origin are left out."""
    spans: list[Span] = []
    starts = [(state["at"] - origin).total_seconds() for state in states]
    for state, start, stop in zip(states, starts, [*starts[1:], max(end, starts[-1])], strict=True):
        span = Span(
            start=max(start, 0.0),
            end=stop,
            leader=state["leader"],
            epoch=state["leader_epoch"],
            isr=tuple(state["isr"]),
            elr=tuple(state["elr"]),
        )
        if stop <= 0 < end:
            continue
        before = spans[-1] if spans else None
        if before and replace(before, end=span.end) == replace(span, start=before.start):
            spans[-1] = replace(before, end=span.end)
        else:
            spans.append(span)
    return tuple(spans)
