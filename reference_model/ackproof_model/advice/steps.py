"""An operator's steps, and the sequences of them that are worth a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations

from ackproof_model.advice.situation import Situation


@dataclass(frozen=True, slots=True)
class Start:
    """Start the brokers, all at once, and wait until nothing changes any more."""

    brokers: tuple[int, ...]

    def __str__(self) -> str:
        return f"start {_words(self.brokers)}" + (" together" if len(self.brokers) > 1 else "")


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a broker by SIGTERM (controlled shutdown)."""

    broker: int

    def __str__(self) -> str:
        return f"stop {self.broker}"


@dataclass(frozen=True, slots=True)
class Elect:
    """Request an unclean election (`kafka-leader-election --election-type unclean`)."""

    def __str__(self) -> str:
        return "unclean election"


@dataclass(frozen=True, slots=True)
class Fail:
    """Another failure: the broker's process is killed, or its machine loses power."""

    broker: int
    power: bool = False

    def __str__(self) -> str:
        return f"{self.broker} loses power" if self.power else f"{self.broker} crashes"


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the broker's disk by an empty one, and start it."""

    broker: int

    def __str__(self) -> str:
        return f"replace the disk of {self.broker}"


@dataclass(frozen=True, slots=True)
class MinIsr:
    """Set min.insync.replicas of the topic."""

    value: int

    def __str__(self) -> str:
        return f"min.insync.replicas={self.value}"


@dataclass(frozen=True, slots=True)
class Move:
    """Move the replicas of a broker to another, which runs (`kafka-reassign-partitions`)."""

    broker: int
    to: int

    def __str__(self) -> str:
        return f"move replicas from {self.broker} to {self.to}"


Step = Start | Stop | Elect | Fail | Replace | MinIsr | Move


def _words(brokers: tuple[int, ...]) -> str:
    *first, last = map(str, brokers)
    return f"{', '.join(first)} and {last}" if first else last


def with_failure(
    steps: tuple[Step, ...], brokers: Sequence[int], *, power: bool
) -> Iterator[tuple[Step, ...]]:
    """Yield the steps with the failure of one of the brokers before, between or after them.

    In the end it is started again.
    """
    for broker in brokers:
        for at in range(len(steps) + 1):
            yield (*steps[:at], Fail(broker, power), *steps[at:], Start((broker,)))


#: Up to so many brokers, every order of starts is compared.
EVERY_ORDER = 4


def sequences(down: tuple[int, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield no step, starts of any of the brokers in any order, and unclean elections after them.

    An unclean election is followed by the start of the remaining brokers. Of more brokers than
    `EVERY_ORDER` all, all but two, or one start at first, and an order has two steps.
    """
    yield ()
    count = len(down)
    sizes = range(1, count + 1) if count <= EVERY_ORDER else (1, count - 2, count - 1, count)
    together = [brokers for size in reversed(sizes) for brokers in combinations(sorted(down), size)]
    rests = {first: tuple(one for one in down if one not in first) for first in together}
    for brokers in together:
        yield (Start(brokers),)
    if count <= EVERY_ORDER:
        for order in permutations(down):
            if count > 1:
                yield tuple(Start((broker,)) for broker in order)
    else:
        for first, rest in rests.items():
            if rest:
                yield Start(first), Start(rest)
    for first, rest in rests.items():
        yield (Start(first), Elect(), *([Start(rest)] if rest else []))
    if down:
        yield (Elect(), Start(down))


def down_brokers(situations: tuple[Situation, ...]) -> tuple[int, ...]:
    """Return the brokers of these partitions that do not run, ascending."""
    replicas = chain.from_iterable(one.replicas for one in situations)
    return tuple(sorted({one.broker for one in replicas if not one.running}))
