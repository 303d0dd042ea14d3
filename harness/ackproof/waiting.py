"""Waiting until a condition holds, and periodic work in a thread of its own."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable
from typing import Self, TypeVar

import tenacity

from ackproof import machine
from ackproof.errors import AckproofError

T = TypeVar("T")

#: The share of the time with processes waiting for a CPU that does not count: a wait lasts four
#: times as long if this machine is never idle.
_STARVED = 0.75


def wait_for(
    look: Callable[[], T],
    until: Callable[[T], bool],
    *,
    within_s: float,
    failure: Callable[[T], AckproofError],
    every_s: float = 0.05,
) -> T:
    """Call `look` every `every_s` seconds until `until(result)` holds, and return that result.

    Raises `failure(last result)` after `within_s` seconds, later on a busy machine. `look` may
    raise to end the wait early.
    """

    def fail(result: T) -> T:
        raise failure(result)

    return _repeated(look, until, fail, within_s=within_s, every_s=every_s)


def last_result(look: Callable[[], T], until: Callable[[T], bool], *, within_s: float) -> T:
    """Return the first result of `look` for which `until` holds, or the last after `within_s`."""
    return _repeated(look, until, lambda result: result, within_s=within_s, every_s=0.05)


def _repeated(
    look: Callable[[], T],
    until: Callable[[T], bool],
    otherwise: Callable[[T], T],
    *,
    within_s: float,
    every_s: float,
) -> T:
    def end(state: tenacity.RetryCallState) -> T:
        assert state.outcome is not None  # tenacity gives up only after an attempt
        return otherwise(state.outcome.result())

    waited = machine.cpu_wait_s()

    def over(state: tenacity.RetryCallState) -> bool:
        starved = _STARVED * (machine.cpu_wait_s() - waited)
        return (state.seconds_since_start or 0.0) - starved >= within_s

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_result(until),
        wait=tenacity.wait_fixed(every_s),
        stop=over,
        retry_error_callback=end,
    )
    return retrying(look)


class Repeating(abc.ABC):
    """Calls `turn` in a thread at once, and again `every_s` seconds after each call has ended.

    The calls end with the context.
    """

    def __init__(self, *, every_s: float, name: str) -> None:
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abc.abstractmethod
    def turn(self) -> bool | None:
        """Do the work once; return True to end it."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the current turn, and start no other."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.turn():
            if self._over.wait(self._every_s):
                return
