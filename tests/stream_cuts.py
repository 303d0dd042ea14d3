"""Places at which tests cut a stream short."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

#: How many bytes apart a stream is cut, besides around the end of each message.
EVERY = pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])


def cuts(length: int, *, every: int, ends: Iterable[int]) -> list[int]:
    """Return sizes from 0 to `length`: every so many bytes, and around the end of each message."""
    near = {end + by for end in ends for by in (-1, 0, 1)}
    return sorted({*range(0, length, every), *near, length} & {*range(length + 1)})
