"""An operator's steps, and the sequences of them that are worth a comparison."""

from __future__ import annotations

from collections.abc import Iterator
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


Step = Start | Stop | Elect


def _words(brokers: tuple[int, ...]) -> str:
    *first, last = map(str, brokers)
    return f"{', '.join(first)} and {last}" if first else last


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
