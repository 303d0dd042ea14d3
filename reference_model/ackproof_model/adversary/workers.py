"""The states of a search, in one process or partitioned over several.

The head decides which process stores a state. Most steps leave the head unchanged. The processes
exchange the other successors after each level, with the broker values that the receiver lacks.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from pathlib import Path

from ackproof_model.adversary.checkpoint import Checkpoint
from ackproof_model.adversary.explorer import Explorer, Tails
from ackproof_model.adversary.packing import BROKER_BITS
from ackproof_model.adversary.state import AdversaryModel, State
from ackproof_model.replication.state import Broker

#: Timeout for messages of other processes, in seconds: a lost message must not block a search.
_PATIENCE_S = 600

#: States with one head: the head, their tails.
_States = tuple[int, Collection[int]]

#: A message between processes: the sender, its new broker values, states.
_Parcel = tuple[int, list[Broker], list[_States]]

#: Distributes heads over processes.
_PRIME = 1_000_003


class Share:
    """The states that belong to one process: each level, by head.

    Of several nearest losses and their traces the least is returned, so the result does not depend
    on the number of processes.
    """

    def __init__(self, model: AdversaryModel, checkpoint: Checkpoint | None = None) -> None:
        self.explorer = Explorer(model)
        self.levels: list[dict[int, Collection[int]]] = []
        self._seen: dict[int, list[Collection[int]]] = {}
        self._narrow = model.brokers * BROKER_BITS <= 64
        self._checkpoint = checkpoint
        self._stored = 0  # number of broker values in the checkpoint

    @property
    def stored_levels(self) -> int:
        return len(self._checkpoint) if self._checkpoint is not None else 0

    def begin(self, levels: int, *, first: bool = True) -> None:
        """Load some levels of the checkpoint; with 0, begin with the first state if `first`."""
        for number in range(levels):
            assert self._checkpoint is not None
            values, level = self._checkpoint.load(number)
            for value in values:
                self.explorer.brokers.of(value)
            for head, tails in level.items():
                self._seen.setdefault(head, []).append(tails)
            self.levels.append(level)
        self._stored = len(self.explorer.brokers.values) if levels else 0
        if not levels:
            head, tail = self.explorer.start
            self.enter(defaultdict(set, {head: {tail}} if first else {}))

    def compact(self, tails: Iterable[int]) -> Collection[int]:
        """Store each tail in eight bytes if it fits."""
        return array("Q", tails) if self._narrow else list(tails)

    def expand(self) -> tuple[Tails, State | None]:
        """Return the successors of the last level, and its least state that has lost records."""
        successors: Tails = defaultdict(set)
        losing: list[State] = []
        for head, tails in self.levels[-1].items():
            lost = self.explorer.expand(head, tails, successors)
            losing += [self.explorer.read(head, tail) for tail in lost]
        return successors, min(losing, default=None)

    def enter(self, successors: Tails) -> int:
        """Store the new states of `successors` as the next level; return their number."""
        level: dict[int, Collection[int]] = {}
        count = 0
        while successors:
            head, new = successors.popitem()
            seen = self._seen.setdefault(head, [])
            for earlier in seen:
                new.difference_update(earlier)
            if new:
                count += len(new)
                level[head] = self.compact(new)
                seen.append(level[head])
        if self._checkpoint is not None:
            values = self.explorer.brokers.values
            self._checkpoint.store(len(self.levels), values[self._stored :], level)
            self._stored = len(values)
        self.levels.append(level)
        return count

    @property
    def sizes(self) -> list[int]:
        return [sum(map(len, level.values())) for level in self.levels]

    def before(self, state: State, level: int) -> State | None:
        """Return the least state of `level` that leads to `state`, None if there is none."""
        goal, tail = self.explorer.pack(state)

        def leads(head: int, tails: Iterable[int]) -> bool:
            reached: Tails = defaultdict(set)
            self.explorer.expand(head, tails, reached)
            return tail in reached.get(goal, ())

        earlier = [
            self.explorer.read(head, candidate)
            for head, tails in self.levels[level].items()
            if leads(head, tails)
            for candidate in tails
            if leads(head, (candidate,))
        ]
        return min(earlier, default=None)


class Alone:
    """All states of a search, stored level by level in this process."""

    memory = 0

    def __init__(self, model: AdversaryModel, keep: Path | None) -> None:
        self._share = Share(model, Checkpoint(keep, model, workers=0, me=0) if keep else None)
        self._share.begin(self._share.stored_levels)

    @property
    def levels(self) -> list[int]:
        """The number of states of each level so far: at least the first."""
        return self._share.sizes

    def advance(self) -> tuple[int, State | None]:
        """Take all steps from the last level; return how many states are new.

        If acked records are lost in a state of the last level, return it instead of taking steps.
        """
        successors, losing = self._share.expand()
        return (0, losing) if losing is not None else (self._share.enter(successors), None)

    def before(self, state: State, level: int) -> State:
        """Return a state of `level` from which one step leads to `state`."""
        earlier = self._share.before(state, level)
        if earlier is None:
            raise LookupError(f"no state of level {level} leads to {state}")
        return earlier

    def close(self) -> None:
        pass


class Several:
    """As `Alone`, with the states shared out over processes."""

    def __init__(self, model: AdversaryModel, count: int, keep: Path | None) -> None:
        context = multiprocessing.get_context("spawn")
        inboxes: list[Queue[_Parcel]] = [context.Queue() for _ in range(count)]
        self._inboxes = inboxes  # must outlive the start of the processes
        self._connections: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(model, number, inboxes, theirs, keep), daemon=True
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        # A level is complete if all processes have stored it.
        levels: list[int] = self._ask("stored levels")  # type: ignore[assignment]
        self._ask("begin", min(levels))

    @property
    def levels(self) -> list[int]:
        sizes: list[list[int]] = self._ask("sizes")  # type: ignore[assignment]
        return [sum(of_all) for of_all in zip(*sizes, strict=True)]

    def _ask(self, *request: object) -> list[object]:
        for connection in self._connections:
            connection.send(request)
        answers = [connection.recv() for connection in self._connections]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def advance(self) -> tuple[int, State | None]:
        losing = [state for state in self._ask("expand") if state is not None]
        if losing:
            return 0, min(losing)  # type: ignore[type-var,return-value]
        return sum(self._ask("exchange")), None  # type: ignore[arg-type]

    def before(self, state: State, level: int) -> State:
        earlier = [one for one in self._ask("before", state, level) if one is not None]
        return min(earlier)  # type: ignore[type-var,return-value]

    @property
    def memory(self) -> int:
        """The peak growth of the processes in bytes."""
        return sum(self._ask("memory"))  # type: ignore[arg-type]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()


def _work(
    model: AdversaryModel,
    me: int,
    inboxes: list[Queue[_Parcel]],
    connection: Connection,
    keep: Path | None,
) -> None:
    """Run one process: answer requests until the other end closes the connection."""
    gc.disable()  # the memoised steps have no cycles and stay in memory
    before = _largest()
    share = Share(model, Checkpoint(keep, model, workers=len(inboxes), me=me) if keep else None)
    exchange = _Exchange(share, me, inboxes)
    successors: Tails = defaultdict(set)
    while True:
        try:
            kind, *details = connection.recv()
        except EOFError:
            return
        try:
            if kind == "stored levels":
                connection.send(share.stored_levels)
            elif kind == "begin":
                share.begin(*details, first=exchange.owner(share.explorer.start[0]) == me)
                connection.send(None)
            elif kind == "sizes":
                connection.send(share.sizes)
            elif kind == "expand":
                successors, losing = share.expand()
                connection.send(losing)
            elif kind == "exchange":
                exchange.run(successors)
                connection.send(share.enter(successors))
            elif kind == "memory":
                connection.send(_largest() - before)
            else:
                connection.send(share.before(*details))
        except Exception as error:  # the requesting process raises it
            connection.send(error)


def _largest() -> int:
    """Return the peak memory of this process, in bytes.

    Without /proc, a child process counts the memory of its parent, too.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class _Exchange:
    """Sends states to the processes that they belong to, and receives those of this process."""

    def __init__(self, share: Share, me: int, inboxes: list[Queue[_Parcel]]) -> None:
        self._share, self._me, self._inboxes = share, me, inboxes
        self._known = [0] * len(inboxes)  # number of our broker values that each process knows
        self._numbers: list[list[int]] = [
            [] for _ in inboxes
        ]  # our numbers for the values of each process
        n = share.explorer.packing.model.brokers
        self._shifts = [number * BROKER_BITS for number in range(n)]

    def owner(self, head: int) -> int:
        return head % _PRIME % len(self._inboxes)

    def run(self, successors: Tails) -> None:
        """Send the successors of other processes, and add those that they send."""
        values = self._share.explorer.brokers.values
        parcels: list[list[_States]] = [[] for _ in self._inboxes]
        for head in [head for head in successors if self.owner(head) != self._me]:
            parcels[self.owner(head)].append((head, self._share.compact(successors.pop(head))))
        for number, inbox in enumerate(self._inboxes):
            if number != self._me:
                new = values[self._known[number] :]
                self._known[number] = len(values)
                inbox.put((self._me, new, parcels[number]))
        for _ in range(len(self._inboxes) - 1):
            sender, new, states = self._inboxes[self._me].get(timeout=_PATIENCE_S)
            self._take(sender, new, states, successors)

    def _take(
        self,
        sender: int,
        values: list[Broker],
        states: list[_States],
        successors: Tails,
    ) -> None:
        numbers, shifts = self._numbers[sender], self._shifts
        numbers += map(self._share.explorer.brokers.of, values)
        mask = (1 << BROKER_BITS) - 1
        for head, tails in states:
            successors[head].update(
                [
                    sum([numbers[tail >> shift & mask] << shift for shift in shifts])
                    for tail in tails
                ]
            )
