"""The time of day of brokers."""

from __future__ import annotations

from typing import Protocol


class Clocks(Protocol):
    """Set the time of day that a broker's JVM sees (`cluster.clock: adjustable`)."""

    def shift(self, broker: int, by_s: float) -> None:
        """Set the broker's clock ahead of the machine's by `by_s` seconds (behind if < 0)."""
