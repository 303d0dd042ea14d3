"""Says what is going on: a live line on a terminal, one line a phase elsewhere.

Always on standard error, so that `--json` leaves standard output to machines.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console


class Reporter(Protocol):
    """What long work tells its user."""

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""

    def phase(self, text: str) -> contextlib.AbstractContextManager[None]:
        """Say what is under way, and how long it took when it ends."""

    def update(self, text: str) -> None:
        """Add a detail to the phase under way; shown on terminals only."""


class ConsoleReporter:
    """Reports to a terminal or a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._phase = ""

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        self._console.print(text, highlight=False)

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Say what is under way, and how long it took when it ends."""
        began = time.monotonic()
        self._phase = text
        if self._status is not None:
            self._status.update(text)
            self._status.start()
        try:
            yield
        except BaseException:
            self._end(f"  [red]✗[/] {text}", began)
            raise
        self._end(f"  [green]✓[/] {text}", began)

    def update(self, text: str) -> None:
        """Add a detail to the phase under way; shown on terminals only."""
        if self._status is not None:
            self._status.update(f"{self._phase}: {text}")

    def _end(self, text: str, began: float) -> None:
        if self._status is not None:
            self._status.stop()
        self._console.print(f"{text} [dim]{time.monotonic() - began:.1f} s[/]", highlight=False)
