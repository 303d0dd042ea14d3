"""Waiting until a condition holds."""

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
    """Call `look` every `every_s` seconds until `until(result)` holds, and return that result.

    After `within_s` seconds, raises `failure(last result)`. `look` may raise to end the wait early.
    """
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_result(until),
        wait=tenacity.wait_fixed(every_s),
        stop=tenacity.stop_after_delay(within_s),
        retry_error_callback=lambda state: _fail(failure, state),
    )
    return retrying(look)


def _fail(failure: Callable[[T], AckproofError], state: tenacity.RetryCallState) -> T:
    assert state.outcome is not None  # tenacity gives up only after an attempt
    raise failure(state.outcome.result())
