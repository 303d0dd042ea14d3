"""The shapes that a partition of a run had, and the steps that were seen in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ackproof_model.coverage import Pair, Shape
from ackproof_model.replication.state import NOBODY

#: A step that was seen: the pairs that it may have been.
Seen = frozenset[Pair]


class PartitionShapes:
    """The shapes of a partition in order, each since a time.

    numbers: the replicas' numbers in assignment order, by broker.
    """

    def __init__(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.numbers = {broker: number for number, broker in enumerate(rows[0]["replicas"])}
        self.shapes = [self._shape(row) for row in rows]
        self.begins = [row["at"] for row in rows]
        self.offsets = [row["metadata_offset"] for row in rows]

    def _shape(self, row: Mapping[str, Any]) -> Shape:
        def numbers(brokers: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted(self.numbers[broker] for broker in brokers))

        return Shape(
            leader=self.numbers.get(row["leader"], NOBODY),
            isr=numbers(row["isr"]),
            elr=numbers(row["elr"]),
            last_known=next(iter(numbers(row["last_known_elr"])), NOBODY),
        )

    def within(
        self, begin: datetime, end: datetime, slack: timedelta | None, *, since: int = 0
    ) -> list[Shape]:
        """Return the shapes in some part of a period; all if clocks cannot be compared.

        since: the number of the first that is possible.
        """
        if slack is None:
            return self.shapes[since:]
        first = max(since, bisect_right(self.begins, begin - slack) - 1)
        return self.shapes[first : max(first + 1, bisect_right(self.begins, end + slack))]


def staying(step: str, shapes: Iterable[Shape]) -> Seen:
    """Return a step that leaves the shape as it is, in one of these."""
    return frozenset(Pair(step, shape, shape) for shape in shapes)
