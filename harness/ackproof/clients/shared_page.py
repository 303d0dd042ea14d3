"""One page of memory between the harness and a producer process.

The process counts, the harness reads whenever it likes: no pipe to fill, nothing to wait for.
The page is a mapped file of 4096 bytes, native 8-byte numbers first::

    0  state      5  started_at, microseconds UTC, the first send; 0 before
    1  sent       6  updated_at, microseconds UTC, the last change
    2  acked      7  stop, written by the harness
    3  failed     8  resume, written by the harness
    4  unknown    9  busy, microseconds of CPU that the client's one thread has used
                 10  late, how many acks were late because that thread stalled
                 11  order, written by the harness: what to do wrong, each time round
                 12  its argument, milliseconds
                 13  obeyed, how often that was done
                 14  length of the error text, which fills the rest of the page

A consumer counts what it read as `sent`, and what it processed as `acked`.

Each number is stored at once, not all together: a reader may see `sent` a little ahead of the
outcomes, never behind them.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_SIZE = 4096
_STATE, _SENT, _ACKED, _FAILED, _UNKNOWN, _STARTED_AT, _UPDATED_AT, _STOP = range(8)
_RESUME, _BUSY, _LATE, _ORDER, _ARGUMENT, _OBEYED, _ERROR = range(8, 15)
_TEXT = 8 * (_ERROR + 1)


def now_us() -> int:
    """Return the time as clients record it: microseconds UTC."""
    return time.time_ns() // 1000


class State(IntEnum):
    """Where a client process is in its life."""

    #: Its program is not there yet: a process that is stopped now would outlive its harness.
    LOADING = 0
    STARTING = 1
    PRODUCING = 2
    #: No new sends; waiting for the outcomes of those under way.
    SETTLING = 3
    DONE = 4
    #: Ended by an error, which the page holds.
    BROKEN = 5
    CONSUMING = 6
    #: A zombie to be: waits until another with its transactional id has begun.
    PAUSED = 7


class Order(IntEnum):
    """Misbehaviour that the harness orders from a client (`interfaces.clients.Order`)."""

    NOTHING = 0
    DAWDLE = 1
    FILL = 2
    PURGE_QUEUE = 3
    PURGE_ALL = 4
    REJOIN = 5
    SKEW = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a producer is: sends handed to the client, and outcomes already in its ledger."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def under_way(self) -> int:
        """Sends whose outcome is not known yet."""
        return self.sent - self.acked - self.failed - self.unknown


def total(parts: Iterable[Progress]) -> Progress:
    """Return the sum over several producers."""
    parts = list(parts)
    return Progress(
        sent=sum(part.sent for part in parts),
        acked=sum(part.acked for part in parts),
        failed=sum(part.failed for part in parts),
        unknown=sum(part.unknown for part in parts),
    )


class ProgressPage:
    """The page itself, from either side."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Map the page at `path`. `create` makes it afresh: the harness does, before the start."""
        if create:
            # Written, not truncated to size: a page without a block would be SIGBUS on a full disk.
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._view = memoryview(self._map)
        self._numbers = self._view[:_TEXT].cast("q")

    def count(self, *, sent: int, acked: int, failed: int, unknown: int, at: int) -> None:
        """Publish the counts as of `at`, microseconds UTC."""
        numbers = self._numbers
        numbers[_SENT] = sent
        numbers[_ACKED] = acked
        numbers[_FAILED] = failed
        numbers[_UNKNOWN] = unknown
        numbers[_UPDATED_AT] = at

    def read(self) -> Progress:
        """Return the counts; outcomes are read before `sent`, so they never exceed it."""
        numbers = self._numbers
        acked, failed, unknown = numbers[_ACKED], numbers[_FAILED], numbers[_UNKNOWN]
        return Progress(sent=numbers[_SENT], acked=acked, failed=failed, unknown=unknown)

    @property
    def state(self) -> State:
        """Where the process is."""
        return State(self._numbers[_STATE])

    @state.setter
    def state(self, state: State) -> None:
        self._numbers[_STATE] = state

    @property
    def started_at(self) -> int:
        """When the first send was made, microseconds UTC; 0 before."""
        return self._numbers[_STARTED_AT]

    @started_at.setter
    def started_at(self, at: int) -> None:
        self._numbers[_STARTED_AT] = at

    @property
    def updated_at(self) -> int:
        """When the counts were last published, microseconds UTC; 0 before the first time."""
        return self._numbers[_UPDATED_AT]

    @property
    def stop(self) -> bool:
        """Whether the harness wants no more sends."""
        return self._numbers[_STOP] != 0

    def ask_to_stop(self) -> None:
        """Ask for no more sends."""
        self._numbers[_STOP] = 1

    @property
    def busy(self) -> int:
        """How much CPU the client's one thread has used since its first send, microseconds."""
        return self._numbers[_BUSY]

    @busy.setter
    def busy(self, microseconds: int) -> None:
        self._numbers[_BUSY] = microseconds

    @property
    def late(self) -> int:
        """How many acks were late because the client stalled, see `Stalls`."""
        return self._numbers[_LATE]

    @late.setter
    def late(self, acks: int) -> None:
        self._numbers[_LATE] = acks

    @property
    def resumed(self) -> bool:
        """Whether the harness wants a paused process to go on."""
        return self._numbers[_RESUME] != 0

    def ask_to_resume(self) -> None:
        """Have a paused process go on."""
        self._numbers[_RESUME] = 1

    @property
    def order(self) -> Order:
        """What the harness has told the process to do wrong."""
        return Order(self._numbers[_ORDER])

    @property
    def argument_s(self) -> float:
        """What belongs to the order, seconds."""
        return self._numbers[_ARGUMENT] / 1000

    def give(self, order: Order, *, milliseconds: int = 0) -> None:
        """Tell the process what to do wrong from now on; `obeyed` counts from here."""
        self._numbers[_OBEYED] = 0
        self._numbers[_ARGUMENT] = milliseconds
        self._numbers[_ORDER] = order

    @property
    def obeyed(self) -> int:
        """How often the process did what it was told, since it was told."""
        return self._numbers[_OBEYED]

    def obey(self, times: int = 1) -> None:
        """Count that the process did what it was told, so often."""
        self._numbers[_OBEYED] += times

    @property
    def error(self) -> str:
        """Why the process ended, if by an error; empty otherwise."""
        length = self._numbers[_ERROR]
        return bytes(self._view[_TEXT : _TEXT + length]).decode(errors="replace")

    def fail(self, error: str) -> None:
        """Say why the process ends, cut to what the page holds."""
        text = error.encode()[: _SIZE - _TEXT]
        self._view[_TEXT : _TEXT + len(text)] = text
        self._numbers[_ERROR] = len(text)
        self.state = State.BROKEN

    def close(self) -> None:
        """Unmap the page."""
        self._numbers.release()
        self._view.release()
        self._map.close()
