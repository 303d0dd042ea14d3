"""Delta debugging: minimal sets of items, and minimal numbers, that still fail.

`ddmin` is Zeller and Hildebrandt's algorithm ("Simplifying and Isolating Failure-Inducing Input",
IEEE Transactions on Software Engineering 28(2), 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a 1-minimal subset of `items`, in their order, that fails.

    `items` as a whole are assumed to fail. 1-minimal: without any single item the subset does not
    fail (the empty set is tried only if one item is left). `fails` need not be monotonic, but must
    be deterministic, so a random oracle must cache its answers. `fails` is called at most
    n * (n + 3) times for n items.
    """
    subset = tuple(items)
    parts = 2
    while subset:
        parts = min(parts, len(subset))
        slices = _split(subset, parts)
        smaller = next((one for one in slices if len(one) < len(subset) and fails(one)), None)
        if smaller is not None:
            subset, parts = smaller, 2
            continue
        # With two parts, the complement of one is the other.
        complements = [_without(slices, index) for index in range(parts)] if parts > 2 else []
        complement = next((one for one in complements if fails(one)), None)
        if complement is not None:
            subset, parts = complement, max(parts - 1, 2)
        elif parts < len(subset):
            parts *= 2
        else:
            # With one item left, only the empty set remains to be tried.
            return () if len(subset) == 1 and fails(()) else subset
    return subset


def minimize(
    value: float, least: float, fails: Callable[[float], bool], *, rounds: int = 3
) -> float:
    """Return a small number from `least` to `value` that fails, after `rounds` bisections.

    `value` is assumed to fail. `least` is tried first. If `fails` is not monotonic, the result
    still fails, but a smaller number may fail as well.
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
    """Return `items` in `parts` slices of almost equal length."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[low:high] for low, high in pairwise(bounds)]


def _without(slices: Sequence[tuple[T, ...]], index: int) -> tuple[T, ...]:
    return tuple(item for number, one in enumerate(slices) if number != index for item in one)
