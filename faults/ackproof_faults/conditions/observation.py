"""The sends, cluster state and earlier faults on which conditions are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ackproof_faults.evidence import FaultWindow
from ackproof_faults.interfaces.cluster import Cluster, Metadata

FaultEvent = Literal["began", "ended", "recovered"]

#: Shortest time between two searches of a broker's log: each reads the whole log.
_LOG_SEARCH_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCounts:
    """Number of sends handed over, and acked, since the run began.

    `acquired` counts the records that polls of share consumers returned.
    """

    sent: int
    acked: int
    acquired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePoint:
    """The moment that `more`, `changed`, `says` and `after` count from.

    `monotonic_s` and `at` are that moment on the monotonic clock and in UTC. `leaders` has the
    leader of each partition.
    """

    sends: SendCounts
    monotonic_s: float
    at: datetime
    leaders: dict[tuple[str, int], int | None]


class ObservationHistory:
    """High watermarks and log searches of earlier ticks."""

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._monotonic = monotonic
        self._high_watermarks: dict[tuple[str, int], tuple[int, float]] = {}
        self._log_searches: dict[tuple[int, str, datetime], tuple[bool, float]] = {}

    def high_watermark_unchanged_s(self, topic: str, partition: int) -> float | None:
        """Return for how many seconds the high watermark has not changed, None if it is unknown."""
        log_end = self._cluster.metadata.log_end(topic, partition)
        if log_end is None:
            return None
        now = self._monotonic()
        known, since = self._high_watermarks.get((topic, partition), (None, now))
        if known != log_end[0]:
            since = now
        self._high_watermarks[topic, partition] = (log_end[0], since)
        return now - since

    def log_contains(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker has logged a line with `text` since then; once true, always true."""
        key, now = (broker, text, since), self._monotonic()
        contains, searched_at = self._log_searches.get(key, (False, float("-inf")))
        if not contains and now - searched_at >= _LOG_SEARCH_INTERVAL_S:
            contains = self._cluster.logs.contains(broker, text, since)
            self._log_searches[key] = (contains, now)
        return contains


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The sends, the cluster and the earlier faults at one tick of a schedule.

    Relative conditions count from `reference`: the previous fault's verification in `when`, the
    fault's own in `heal_when`. `windows` has the id and window of each fault that began since the
    innermost sequence did. None stands for a value that is unknown now.
    """

    cluster: Cluster
    history: ObservationHistory
    sends: SendCounts
    now_s: float
    reference: ReferencePoint
    windows: Sequence[tuple[str, FaultWindow]]

    def elapsed_s(self) -> float:
        return self.now_s - self.reference.monotonic_s

    @property
    def metadata(self) -> Metadata:
        return self.cluster.metadata
