"""A page of memory that the harness shares with a client process.

The process writes counts and the harness reads them without waiting. The page is a mapped file of
4096 bytes, which begins with native 8-byte integers::

    0  state      5  started_at, microseconds UTC, of the first send; 0 before
    1  sent       6  updated_at, microseconds UTC, of the last change
    2  acked      7  stop, written by the harness
    3  failed     8  resume, written by the harness
    4  unknown    9  busy, microseconds of CPU time that the client's one thread has used
                 10  late, the acks that were late because that thread stalled
                 11  order, written by the harness: the misbehaviour of every iteration
                 12  argument of the order, milliseconds
                 13  obeyed, how often the order was carried out
                 14  length of the error text, which fills the rest of the page

A consumer counts reads as `sent`, and processed records as `acked`.

Every integer is stored atomically. A reader may see `sent` ahead of the outcomes, never behind.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_SIZE = 4096
_SENT, _ACKED, _FAILED, _UNKNOWN = range(1, 5)
_STARTED_AT, _UPDATED_AT = 5, 6
_ARGUMENT, _ERROR = 12, 14
_TEXT = 8 * (_ERROR + 1)


def now_us() -> int:
    """Return the time as clients record it: microseconds UTC."""
    return time.time_ns() // 1000


class State(IntEnum):
    #: The program is not loaded. A process suspended in this phase would outlive its harness.
    LOADING = 0
    STARTING = 1
    PRODUCING = 2
    #: It makes no more sends and waits for the outcomes of those in flight.
    SETTLING = 3
    DONE = 4
    #: It ended with an error, which the page contains.
    BROKEN = 5
    CONSUMING = 6
    #: It waits until its successor works, and then continues as a zombie.
    PAUSED = 7


#: The phases before a client works.
NOT_READY = (State.LOADING, State.STARTING)


class Order(IntEnum):
    """Misbehaviour that the harness orders from a client (`interfaces.clients.Order`)."""

    NOTHING = 0
    SLOW = 1
    FILL = 2
    PURGE_QUEUE = 3
    PURGE_ALL = 4
    REJOIN = 5
    SKEW = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A producer's sends, and their outcomes that are in its ledger."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def in_flight(self) -> int:
        return self.sent - self.acked - self.failed - self.unknown


def total(parts: Iterable[Progress]) -> Progress:
    parts = list(parts)
    return Progress(
        sent=sum(part.sent for part in parts),
        acked=sum(part.acked for part in parts),
        failed=sum(part.failed for part in parts),
        unknown=sum(part.unknown for part in parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """The page of a client after a run."""

    state: State
    counted: Progress

    @property
    def done(self) -> bool:
        """Whether the client ended by itself, after it had counted everything."""
        return self.state is State.DONE


def recorded(path: Path) -> StoredPage:
    """Return the page at `path`, unmapped. Raises `ValueError` if it is incomplete."""
    page = path.read_bytes()
    if len(page) != _SIZE:
        raise ValueError(f"{path} has {len(page)} bytes instead of {_SIZE}")
    state, sent, acked, failed, unknown = struct.unpack_from("=5q", page)
    counted = Progress(sent=sent, acked=acked, failed=failed, unknown=unknown)
    return StoredPage(state=State(state), counted=counted)


class _Cell(Generic[T]):
    """One integer of the page, read as `kind`."""

    def __init__(self, index: int, kind: Callable[[int], T]) -> None:
        self._index = index
        self._kind = kind

    def __get__(self, page: ProgressPage, owner: type) -> T:
        return self._kind(page.numbers[self._index])

    def __set__(self, page: ProgressPage, value: int) -> None:
        page.numbers[self._index] = value


class ProgressPage:
    state = _Cell(0, State)
    started_at = _Cell(_STARTED_AT, int)
    updated_at = _Cell(_UPDATED_AT, int)
    #: The harness asks the process to end.
    stop = _Cell(7, bool)
    #: The harness asks a paused process to continue.
    resumed = _Cell(8, bool)
    busy = _Cell(9, int)
    late = _Cell(10, int)
    order = _Cell(11, Order)
    obeyed = _Cell(13, int)

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Map the page at `path`. The harness creates it with `create`."""
        if create:
            # Written, not truncated to size: a page without a block raises SIGBUS on a full disk.
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._view = memoryview(self._map)
        self.numbers = self._view[:_TEXT].cast("q")

    def count(self, *, sent: int, acked: int, failed: int, unknown: int, at: int) -> None:
        """Publish the counts of the time `at`, microseconds UTC."""
        numbers = self.numbers
        numbers[_SENT] = sent
        numbers[_ACKED] = acked
        numbers[_FAILED] = failed
        numbers[_UNKNOWN] = unknown
        self.updated_at = at

    def read(self) -> Progress:
        """Return the counts. Outcomes are read before `sent`, so that they never exceed it."""
        numbers = self.numbers
        acked, failed, unknown = numbers[_ACKED], numbers[_FAILED], numbers[_UNKNOWN]
        return Progress(sent=numbers[_SENT], acked=acked, failed=failed, unknown=unknown)

    @property
    def argument_s(self) -> float:
        return self.numbers[_ARGUMENT] / 1000

    def give(self, order: Order, *, milliseconds: int = 0) -> None:
        """Order misbehaviour from now on, and reset `obeyed` to 0."""
        self.obeyed = 0
        self.numbers[_ARGUMENT] = milliseconds
        self.order = order

    @property
    def error(self) -> str:
        length = self.numbers[_ERROR]
        return bytes(self._view[_TEXT : _TEXT + length]).decode(errors="replace")

    def fail(self, error: str) -> None:
        """Store the error with which the process ends, truncated to the page's size."""
        text = error.encode()[: _SIZE - _TEXT]
        self._view[_TEXT : _TEXT + len(text)] = text
        self.numbers[_ERROR] = len(text)
        self.state = State.BROKEN

    def close(self) -> None:
        self.numbers.release()
        self._view.release()
        self._map.close()
