"""How far apart the clocks are: this host's, the engine's, and each node's own.

Times in a run's tables come from different clocks: sends and fault windows from this host's,
partition states from the controllers', log lines from each broker's. On one machine they agree; an
engine in a virtual machine, or a fault that moves a broker's clock, sets them apart.

The engine tells its time when asked. A node's own time stands in each line it logs, beside the
engine's time of receiving that line: the line with the least delay gives the best bound.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.cluster.node import KafkaNode

_LINES = 200

#: Lines are received sooner than this, and faults move clocks further.
_JUMP = timedelta(seconds=3)

#: The engine's time, in nanoseconds; then what the node printed: log4j's time, in milliseconds.
_LINE = re.compile(
    r"(?P<received>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9})Z "
    r"\[(?P<logged>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d,\d{3})\]"
)


class Clock(BaseModel):
    """One clock against this host's: `offset_ms` is how far it is ahead, give or take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    offset_ms: float
    give_or_take_ms: float


def engine_clock(client: DockerClient, now: Callable[[], datetime]) -> Clock:
    """Ask the engine for its time; half of the question's way and back is the uncertainty."""
    asked = now()
    told = _instant(client.info()["SystemTime"].removesuffix("Z"))
    way = (now() - asked) / 2
    return Clock(
        of="engine",
        offset_ms=_milliseconds(told - (asked + way)),
        give_or_take_ms=_milliseconds(way),
    )


def node_clock(node: KafkaNode, engine: Clock) -> Clock | None:
    """Return the node's clock by what it logged last; None if that holds no time."""
    said = node.container.logs(tail=_LINES, timestamps=True).decode(errors="replace")
    offset = ahead_of_engine(said.splitlines())
    if offset is None:
        return None
    return Clock(
        of=node.spec.name,
        offset_ms=engine.offset_ms + _milliseconds(offset),
        # Logged times are cut to milliseconds.
        give_or_take_ms=engine.give_or_take_ms + 1,
    )


def ahead_of_engine(lines: Iterable[str]) -> timedelta | None:
    """Return how far the clock in the lines is ahead of the engine's; None without any line.

    A line is received after it was logged, so that every line says too little; the most is next
    to the truth. Lines from before a fault moved the clock say nothing about it now.
    """
    found = [
        _instant(line["logged"].replace(" ", "T").replace(",", ".")) - _instant(line["received"])
        for line in map(_LINE.match, lines)
        if line is not None
    ]
    since = itertools.takewhile(lambda one: abs(one - found[-1]) < _JUMP, reversed(found))
    return max(since, default=None)


def _instant(text: str) -> datetime:
    """Read a UTC time with up to nine decimals, of which Python keeps six."""
    whole, _, decimals = text.partition(".")
    return datetime.fromisoformat(f"{whole}.{decimals[:6]:0<6}").replace(tzinfo=UTC)


def _milliseconds(span: timedelta) -> float:
    return round(span / timedelta(milliseconds=1), 3)
