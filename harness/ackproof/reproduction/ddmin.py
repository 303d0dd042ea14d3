"""Delta debugging: fewer things, and smaller numbers, that still fail. Pure.

`ddmin` is Zeller and Hildebrandt's algorithm ("Simplifying and Isolating Failure-Inducing Input",
IEEE Transactions on Software Engineering 28(2), 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a part of `items`, in their order, that fails and from which nothing can be taken.

    `items` as a whole are taken to fail. The answer is 1-minimal: `fails` said no to it without
    any single item (to nothing at all only if one item is left). That needs no monotonicity; but
    `fails` must answer the same question in the same way, so an oracle with chance in it must
    remember its answers. It is asked at most n * (n + 3) times for n items.
    """
    kept = tuple(items)
    parts = 2
    while kept:
        parts = min(parts, len(kept))
        slices = _split(kept, parts)
        smaller = next((one for one in slices if len(one) < len(kept) and fails(one)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        # With two parts, the complement of one is the other.
        rests = [_without(slices, index) for index in range(parts)] if parts > 2 else []
        rest = next((one for one in rests if fails(one)), None)
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts < len(kept):
            parts *= 2
        else:
            # Of one item, only nothing is left to be asked about.
            return () if len(kept) == 1 and fails(()) else kept
    return kept


def lessen(value: float, least: float, fails: Callable[[float], bool], *, rounds: int = 3) -> float:
    """Return a number from `least` to `value` that fails, found by at most `rounds` + 1 questions.

    `value` is taken to fail. `least` is asked for first, then the range is halved; where failing is
    not monotonic, the answer fails all the same, though a smaller number may fail, too.
    """
    if value <= least:
        return value
    if fails(least):
        return least
    low, high = least, value
    for _ in range(rounds):
        middle = (low + high) / 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _split(items: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Return `items` in so many parts, as alike in length as can be."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[low:high] for low, high in pairwise(bounds)]


def _without(slices: Sequence[tuple[T, ...]], index: int) -> tuple[T, ...]:
    return tuple(item for number, one in enumerate(slices) if number != index for item in one)
