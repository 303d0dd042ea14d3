"""When a client's one thread served nothing, and whose latencies that falsifies."""

from __future__ import annotations

import numpy as np

from ackproof.ledger.in_flight import Int64s

#: A thread that serves nothing for longer than this stalls, microseconds.
STALL_US = 100_000

#: A latency is the client's own if more than this share of it passed while its thread stalled.
SHARE = 0.1


class Stalls:
    """The stalls of one client so far."""

    def __init__(self) -> None:
        #: Where each began and ended, microseconds UTC, and how long all had lasted together then.
        self._at: list[int] = []
        self._lasted: list[int] = []

    def served(self, before: int, now: int) -> None:
        """Note that nothing was served between `before` and `now`, microseconds UTC."""
        if now - before > STALL_US:
            total = self._lasted[-1] if self._lasted else 0
            self._at += (before, now)
            self._lasted += (total, total + now - before)

    def late(self, sent_at: Int64s, resolved_at: Int64s) -> int:
        """Return how many of these acks were late because of the client, not of the cluster.

        What stands still for half a second after an outage of ten falsifies little.
        """
        if not self._at:
            return 0
        stalled = np.interp(resolved_at, self._at, self._lasted)
        stalled -= np.interp(sent_at, self._at, self._lasted)
        bound = np.maximum(STALL_US, SHARE * (resolved_at - sent_at))
        return int(np.count_nonzero(stalled > bound))
