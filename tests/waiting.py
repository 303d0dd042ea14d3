"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

T = TypeVar("T")


def until(
    look: Callable[[], T],
    problem: str = "it never came true",
    *,
    good: Callable[[T], bool] = bool,
) -> T:
    """Wait up to 120 s until what `look` returns is `good`, by default true, and return it."""
    return wait_for(
        look,
        good,
        within_s=120,
        failure=lambda last: ClusterError(f"{problem}: {last!r:.500}"),
        every_s=0.01,
    )
