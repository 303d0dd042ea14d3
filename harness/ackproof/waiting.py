"""Waiting for something to become true, and saying what was seen last if it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity

from ackproof.errors import AckproofError

T = TypeVar("T")


def wait_for(
    look: Callable[[], T],
    until: Callable[[T], bool],
    *,
    within_s: float,
    failure: Callable[[T], AckproofError],
    every_s: float = 0.05,
) -> T:
    """Call `look` until `until(result)` holds, and return that result.

    `within_s` bounds the wait; then `failure(last result)` is raised. `look` may raise to end
    the wait early, when there is nothing left to wait for.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_result(until),
        wait=tenacity.wait_fixed(every_s),
        stop=tenacity.stop_after_delay(within_s),
        retry_error_callback=lambda state: _fail(failure, state),
    )
    return retrying(look)


def _fail(failure: Callable[[T], AckproofError], state: tenacity.RetryCallState) -> T:
    assert state.outcome is not None  # stop is only asked after an attempt
    raise failure(state.outcome.result())
