"""The log4j logs of brokers."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class BrokerLogs(Protocol):
    """Search the log of a broker."""

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker has logged a line with `text` since then."""

    def await_line(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        """Wait until the broker has logged a line with `text`, and return the line.

        Raises FaultError after `within_s`, or when the broker has ended without such a line.
        """
