"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

T = TypeVar("T")


def until(look: Callable[[], T], problem: str = "it never came true") -> T:
    """Wait up to 90 s until `look` returns a true value, and return it."""
    return wait_for(look, bool, within_s=90, failure=lambda _: ClusterError(problem), every_s=0.01)
