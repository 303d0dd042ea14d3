"""Stalls of a client's one thread, and the acks that were late because of them."""

from __future__ import annotations

import numpy as np

from ackproof.ledger.in_flight import Int64s

#: A thread that serves nothing for more microseconds than this has stalled.
STALL_US = 100_000

#: An ack is late because of the client if stalls make up more than this share of its latency.
SHARE = 0.1


class Stalls:
    def __init__(self) -> None:
        #: Begin and end of each stall, microseconds UTC, and the sum of all stalls at that time.
        self._at: list[int] = []
        self._total: list[int] = []

    def served(self, before: int, now: int) -> None:
        """Note a poll at `now` after one at `before`, microseconds UTC."""
        if now - before > STALL_US:
            total = self._total[-1] if self._total else 0
            self._at += (before, now)
            self._total += (total, total + now - before)

    def late(self, sent_at: Int64s, resolved_at: Int64s) -> int:
        """Return how many of these acks were late because of the client, not the cluster.

        A stall of half a second hardly changes the latency of an ack after an outage of ten.
        """
        if not self._at:
            return 0
        stalled = np.interp(resolved_at, self._at, self._total)
        stalled -= np.interp(sent_at, self._at, self._total)
        bound = np.maximum(STALL_US, SHARE * (resolved_at - sent_at))
        return int(np.count_nonzero(stalled > bound))
