"""The states of a search, in one process or shared out over several.

Each state belongs to one process, by a hash of what the controller, the producer and the adversary
did. Most steps change none of that, so most successors stay where they are. Processes exchange
the others after each level.
"""

from __future__ import annotations

import marshal
import multiprocessing
import resource
from abc import ABC, abstractmethod
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from pathlib import Path
from types import TracebackType
from typing import Self

from ackproof.reference_model.adversary.bounds import Question
from ackproof.reference_model.adversary.explorer import Explorer

#: A lost message must not hang a search for ever (seconds).
_PATIENCE_S = 600

#: Spreads states over processes.
_PRIME = 1_000_003


class Workers(ABC):
    """Whoever keeps the states."""

    @staticmethod
    def of(question: Question, count: int) -> Workers:
        """Return `count` processes; 0 for none but this one."""
        return Several(question, count) if count else Alone(question)

    @abstractmethod
    def advance(self) -> tuple[int, int | None]:
        """Take all steps from the last level: return how many states are new.

        And a state of the last level in which acked records are lost, if there is one; then no
        step is taken.
        """

    @abstractmethod
    def before(self, state: int, level: int) -> int:
        """Return a state of a level from which one step leads to `state`."""

    @property
    def memory(self) -> int:
        """By how many bytes processes of their own grew, at most; 0 in this process."""
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class Share:
    """The states that belong to one process."""

    def __init__(self, question: Question) -> None:
        self.explorer = Explorer(question)
        self.seen: set[int] = set()
        self.levels: list[list[int]] = []

    def enter(self, found: set[int]) -> int:
        """Make the new ones among `found` the next level; return how many there are."""
        found -= self.seen
        self.seen |= found
        self.levels.append(list(found))
        return len(found)

    def before(self, state: int, level: int) -> int | None:
        """Return a state of a level that leads to `state`, None for none."""
        for candidate in self.levels[level]:
            reached: set[int] = set()
            self.explorer.expand((candidate,), reached)
            if state in reached:
                return candidate
        return None


class Alone(Workers):
    """All states in this process."""

    def __init__(self, question: Question) -> None:
        self._share = Share(question)
        self._share.enter({self._share.explorer.start})

    def advance(self) -> tuple[int, int | None]:
        """See `Workers`."""
        found: set[int] = set()
        losing = self._share.explorer.expand(self._share.levels[-1], found)
        return (0, losing) if losing is not None else (self._share.enter(found), None)

    def before(self, state: int, level: int) -> int:
        """See `Workers`."""
        found = self._share.before(state, level)
        if found is None:
            raise LookupError(f"no state of level {level} leads to {state}")
        return found


class Several(Workers):
    """States shared out over processes."""

    def __init__(self, question: Question, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        inboxes: list[Queue[bytes]] = [context.Queue() for _ in range(count)]
        self._inboxes = inboxes  # a process that is still starting finds them as long as this does
        self._connections: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(question, number, inboxes, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    def _ask(self, *request: object) -> list[object]:
        for connection in self._connections:
            connection.send(request)
        answers = [connection.recv() for connection in self._connections]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def advance(self) -> tuple[int, int | None]:
        """See `Workers`."""
        losing = [one for one in self._ask("expand") if one is not None]
        if losing:
            return 0, min(losing)  # type: ignore[type-var,return-value]
        return sum(self._ask("exchange")), None  # type: ignore[arg-type]

    def before(self, state: int, level: int) -> int:
        """See `Workers`."""
        found = [one for one in self._ask("before", state, level) if one is not None]
        return min(found)  # type: ignore[type-var,return-value]

    @property
    def memory(self) -> int:
        """See `Workers`."""
        return sum(self._ask("memory"))  # type: ignore[arg-type]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()


def _work(question: Question, me: int, inboxes: list[Queue[bytes]], connection: Connection) -> None:
    """One process: answer requests until the other end is closed."""
    before = _largest()
    share = Share(question)
    shared, start = _shared(share), share.explorer.start
    share.enter({start} if (start & shared) % _PRIME % len(inboxes) == me else set())
    found: set[int] = set()
    while True:
        try:
            kind, *details = connection.recv()
        except EOFError:
            return
        try:
            if kind == "expand":
                found = set()
                connection.send(share.explorer.expand(share.levels[-1], found))
            elif kind == "exchange":
                found -= share.seen
                connection.send(share.enter(_exchanged(found, shared, me, inboxes)))
            elif kind == "memory":
                connection.send(_largest() - before)
            else:
                connection.send(share.before(*details))
        except Exception as error:  # the process that asked raises it
            connection.send(error)


def _largest() -> int:
    """Return the most memory that this process has had, in bytes.

    Where there is no /proc, a process that another started counts that one's memory, too.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _shared(share: Share) -> int:
    """Return the bits of a state by which processes share them out: all but the replicas."""
    packing = share.explorer.packing
    replicas = (1 << packing.writes_at) - (1 << packing.partition_bits)
    return ((1 << packing.bits) - 1) & ~replicas


def _exchanged(found: set[int], shared: int, me: int, inboxes: list[Queue[bytes]]) -> set[int]:
    """Send what belongs to others, and return what belongs here, from all."""
    count = len(inboxes)
    for number, inbox in enumerate(inboxes):
        if number != me:
            parcel = [state for state in found if (state & shared) % _PRIME % count == number]
            inbox.put(marshal.dumps(parcel))
            found.difference_update(parcel)
    for _ in range(count - 1):
        found.update(marshal.loads(inboxes[me].get(timeout=_PATIENCE_S)))  # noqa: S302 -- ours
    return found
