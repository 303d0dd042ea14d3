"""Measures the offsets of the container engine's clock and of every node's clock.

Times in a run's tables come from different clocks: those of sends and fault windows from this host,
of partition states from the controllers, of log lines from each broker. On one machine the clocks
agree, unless the engine runs in a virtual machine or a fault has changed a broker's clock.

The engine's API returns its time. Each line that a node logs has the node's time, and the engine
adds the time of reception: the line with the smallest delay gives the best bound.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from docker import DockerClient

from ackproof.containers.commands import Node
from ackproof.observation.broker_log import BrokerEvent, Kind
from ackproof.observation.metadata_log import MetadataLog
from ackproof.runs.directory import Clock

_LINES = 200
_QUARTER_S, _ZONE_S = 900, 5

#: More than the delay of a line's reception, less than a fault's change of a clock.
_JUMP = timedelta(seconds=3)

#: The engine's time in nanoseconds, then log4j's time in milliseconds.
_LINE = re.compile(
    r"(?P<received>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9})Z "
    r"\[(?P<logged>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d,\d{3})\]"
)


def take_clocks(
    client: DockerClient, nodes: Sequence[Node], now: Callable[[], datetime]
) -> list[Clock]:
    """Return the clocks of the engine and of every node, compared with this host's (`now`)."""
    engine = engine_clock(client, now)
    return [engine, *filter(None, (node_clock(node, engine) for node in nodes))]


def engine_clock(client: DockerClient, now: Callable[[], datetime]) -> Clock:
    """Return the engine's clock; its uncertainty is half the round trip of the request."""
    before = now()
    engine_time = _instant(client.info()["SystemTime"].removesuffix("Z"))
    half_round_trip = (now() - before) / 2
    return Clock(
        of="engine",
        offset_ms=_milliseconds(engine_time - (before + half_round_trip)),
        give_or_take_ms=_milliseconds(half_round_trip),
    )


def node_clock(node: Node, engine: Clock) -> Clock | None:
    """Return the node's clock by its last log lines; None if they contain no time."""
    output = node.container.logs(tail=_LINES, timestamps=True).decode(errors="replace")
    offset = ahead_of_engine(output.splitlines())
    if offset is None:
        return None
    return Clock(
        of=node.name,
        offset_ms=engine.offset_ms + _milliseconds(offset),
        # log4j truncates times to milliseconds.
        give_or_take_ms=engine.give_or_take_ms + 1,
    )


def ahead_of_engine(lines: Iterable[str]) -> timedelta | None:
    """Return how far the clock in these log lines is ahead of the engine's; None without lines.

    The engine receives a line after it was logged, so every line gives a lower bound, and the
    largest is the closest. Lines from before the last jump of the clock are not used.
    """
    offsets = [
        _instant(line["logged"].replace(" ", "T").replace(",", ".")) - _instant(line["received"])
        for line in map(_LINE.match, lines)
        if line is not None
    ]
    recent = itertools.takewhile(lambda offset: abs(offset - offsets[-1]) < _JUMP, offsets[::-1])
    return max(recent, default=None)


def _instant(text: str) -> datetime:
    """Parse a UTC time with up to nine decimals; Python keeps six."""
    whole, _, decimals = text.partition(".")
    return datetime.fromisoformat(f"{whole}.{decimals[:6]:0<6}").replace(tzinfo=UTC)


def _milliseconds(span: timedelta) -> float:
    return round(span / timedelta(milliseconds=1), 3)


def of_log_lines(log: MetadataLog, events: Iterable[BrokerEvent]) -> list[str]:
    """Return, in words, which brokers' log lines have other times than the controllers.

    A broker learns of a leader epoch after it began, so an earlier line has another clock. If all
    lines are later by a multiple of a quarter of an hour, they have another time zone. The epoch of
    a state from a snapshot began at an unknown time before it.
    """
    began: dict[tuple[str, int, int], datetime | None] = {}
    seen: set[tuple[str, int]] = set()
    for state in log.partitions:
        place = state.topic, state.partition
        known = place in seen or state.partition_epoch == 0
        began.setdefault((*place, state.leader_epoch), state.at if known else None)
        seen.add(place)
    later: defaultdict[int, list[float]] = defaultdict(list)
    for one in events:
        key = one.topic or "", -1 if one.partition is None else one.partition, one.leader_epoch or 0
        if one.kind in (Kind.LEADER, Kind.FOLLOWER) and (at := began.get(key)):
            later[one.broker].append((one.at - at).total_seconds())
    words = []
    for broker, seconds in sorted(later.items()):
        least = min(seconds)
        zones = round(least / _QUARTER_S)
        if least < -_JUMP.total_seconds() or (zones and abs(least - zones * _QUARTER_S) < _ZONE_S):
            how = "behind" if least < 0 else "ahead of"
            words.append(
                f"the lines of broker {broker} are {abs(least):,.0f} s {how} the controllers' "
                "clock: they may be assigned to another leader. Times are read as UTC"
            )
    return words
