"""What conditions look at: the sends, the cluster, and the faults so far, from a mark on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ackproof_faults.conditions.cluster_state import Event
from ackproof_faults.guard import FaultWindow
from ackproof_faults.interfaces.cluster import Cluster

#: A log is asked for at most so often: it is read from the engine as a whole.
_LOG_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many sends have been handed over and acked since the run began."""

    sent: int
    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The moment from which `more`, `changed`, `says` and `after` count."""

    progress: Progress
    time: float
    at: datetime
    leaders: dict[tuple[str, int], int | None]


class Watch:
    """What must be looked at more than once to be known: high watermarks that stand, logs."""

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float]) -> None:
        self._cluster = cluster
        self._monotonic = monotonic
        self._high_watermarks: dict[tuple[str, int], tuple[int, float]] = {}
        self._logs: dict[tuple[int, str, datetime], tuple[bool, float]] = {}

    def still(self, topic: str, partition: int) -> float | None:
        """Return for how many seconds the high watermark has been seen where it is."""
        found = self._cluster.metadata.log_end(topic, partition)
        if found is None:
            return None
        now = self._monotonic()
        known, since = self._high_watermarks.get((topic, partition), (None, now))
        if known != found[0]:
            since = now
        self._high_watermarks[topic, partition] = (found[0], since)
        return now - since

    def log_says(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker has logged a line with `text` since then; it stays said."""
        key, now = (broker, text, since), self._monotonic()
        said, asked = self._logs.get(key, (False, float("-inf")))
        if not said and now - asked >= _LOG_EVERY_S:
            said = self._cluster.logs.contains(broker, text, since)
            self._logs[key] = (said, now)
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What conditions look at, counted from a mark (see `triggers.Observation`).

    `windows` are those of the faults that began since the innermost sequence did, with their ids.
    """

    cluster: Cluster
    watch: Watch
    progress: Progress
    mark: Mark
    elapsed_s: float
    windows: Sequence[tuple[str, FaultWindow]]

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        """Return how many sends are acked or handed over, in all or since the mark."""
        now, then = getattr(self.progress, outcome), getattr(self.mark.progress, outcome)
        return int(now - then if more else now)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader."""
        return self.cluster.metadata.leader(topic, partition)

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's committed ISR."""
        return self.cluster.metadata.isr(topic, partition)

    def epoch(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader epoch."""
        found = self.cluster.metadata.log_end(topic, partition)
        return None if found is None else found[1]

    def still(self, topic: str, partition: int) -> float | None:
        """Return for how many seconds the partition's high watermark has not moved."""
        return self.watch.still(topic, partition)

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        """Return how many records the group has still to commit."""
        committed = self.cluster.metadata.committed(group, topic, partition)
        found = self.cluster.metadata.log_end(topic, partition)
        return None if committed is None or found is None else found[0] - committed

    def log_says(self, broker: int | None, text: str) -> bool:
        """Whether a line with `text` is in the broker's log (None: any's) since the mark."""
        brokers = self.cluster.metadata.broker_ids() if broker is None else [broker]
        return any(self.watch.log_says(one, text, self.mark.at) for one in brokers)

    def leader_changed(self, topic: str, partition: int) -> bool:
        """Whether the partition has a leader, other than the one at the mark."""
        before = self.mark.leaders.get((topic, partition))
        now = self.cluster.metadata.leader(topic, partition)
        return None not in (before, now) and before != now

    def elapsed(self) -> float:
        """Return the seconds since the mark."""
        return self.elapsed_s

    def happened(self, fault: str, event: Event) -> bool:
        """Whether it happened to a fault of this name or id."""
        field = {"began": "verified_at", "ended": "healed_at", "recovered": "recovered_at"}[event]
        return any(
            getattr(window, field) is not None
            for name, window in self.windows
            if fault in (name, window.fault)
        )
