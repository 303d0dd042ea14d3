"""How far apart the clocks are: this host's, the engine's, and each node's own.

Times in a run's tables come from different clocks: sends and fault windows from this host's,
partition states from the controllers', log lines from each broker's. On one machine they agree; an
engine in a virtual machine, or a fault that moves a broker's clock, sets them apart.

The engine tells its time when asked. A node's own time stands in each line it logs, beside the
engine's time of receiving that line: the line with the least delay gives the best bound.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from ackproof.harness.errors import ClusterError
from ackproof.harness.waits import wait_for

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.harness.cluster.node import KafkaNode

_LINES = 200
_LOGS_S = 5.0

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


def clock_ahead(node: KafkaNode) -> float | None:
    """Return by how many seconds a broker's clock is ahead of the engine's now; None if unknown.

    It is made to log: a request of negative length is refused with a warning
    (`org.apache.kafka.common.network.NetworkReceive`).
    """
    before = _last_line(node)

    def look() -> str:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", node.spec.external_port), 1) as connection,
        ):
            connection.sendall(b"\xff\xff\xff\xff")
            connection.settimeout(1)
            connection.recv(1)
        return _last_line(node)

    with contextlib.suppress(ClusterError):
        line = wait_for(
            look,
            lambda line: line not in ("", before),
            within_s=_LOGS_S,
            every_s=0.1,
            failure=lambda _: ClusterError("it logs nothing"),
        )
        offset = ahead_of_engine([line])
        return None if offset is None else offset.total_seconds()
    return None


def _last_line(node: KafkaNode) -> str:
    """Return the last line with a time that the node logged, after the engine's time of it."""
    said = node.container.logs(tail=_LINES, timestamps=True).decode(errors="replace")
    return next((line for line in reversed(said.splitlines()) if _LINE.match(line)), "")


def ahead_of_engine(lines: Iterable[str]) -> timedelta | None:
    """Return how far the clock in the lines is ahead of the engine's; None without any line.

    A line is received after it was logged, so that every line says too little; the most is next
    to the truth.
    """
    found = [
        _instant(line["logged"].replace(" ", "T").replace(",", ".")) - _instant(line["received"])
        for line in map(_LINE.match, lines)
        if line is not None
    ]
    return max(found, default=None)


def _instant(text: str) -> datetime:
    """Read a UTC time with up to nine decimals, of which Python keeps six."""
    whole, _, decimals = text.partition(".")
    return datetime.fromisoformat(f"{whole}.{decimals[:6]:0<6}").replace(tzinfo=UTC)


def _milliseconds(span: timedelta) -> float:
    return round(span / timedelta(milliseconds=1), 3)
