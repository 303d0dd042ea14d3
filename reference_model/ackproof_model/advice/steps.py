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
    """Request an unclean election (`kafka-leader-elections --election-type unclean`)."""

    def __str__(self) -> str:
        return "unclean election"


Step = Start | Stop | Elect


def _words(brokers: tuple[int, ...]) -> str:
    *first, last = map(str, brokers)
    return f"{', '.join(first)} and {last}" if first else last


def sequences(down: tuple[int, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield no step, starts of any of the brokers in any order, and unclean elections after them.

    An unclean election is followed by the start of the remaining brokers.
    """
    yield ()
    together = {
        brokers for size in range(1, len(down) + 1) for brokers in combinations(sorted(down), size)
    }
    for brokers in sorted(together, key=lambda one: (-len(one), one)):
        yield (Start(brokers),)
    for order in permutations(down):
        if len(order) > 1:
            yield tuple(Start((broker,)) for broker in order)
    for brokers in sorted(together, key=lambda one: (-len(one), one)):
        rest = tuple(broker for broker in down if broker not in brokers)
        yield (Start(brokers), Elect(), *([Start(rest)] if rest else []))
    if down:
        yield (Elect(), Start(down))


def down_brokers(situations: tuple[Situation, ...]) -> tuple[int, ...]:
    """Return the brokers of these partitions that do not run, ascending."""
    replicas = chain.from_iterable(one.replicas for one in situations)
    return tuple(sorted({one.broker for one in replicas if not one.running}))
