"""Where the time of a boot goes: seconds by phase, in order."""

from __future__ import annotations

import time


class Laps:
    """A stopwatch: each lap is what has passed since the lap before, or since it was made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        """End the phase; one that comes again is added to."""
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now
