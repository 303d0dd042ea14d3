"""Says what is going on: a live line on a terminal, one line a phase elsewhere.

Always on standard error, so that `--json` leaves standard output to machines.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console, Group, RenderableType

#: How often `show` says a line where there is no terminal, seconds.
_LINE_EVERY_S = 5.0


class Reporter(Protocol):
    """What long work tells its user."""

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""

    def phase(self, text: str) -> contextlib.AbstractContextManager[None]:
        """Say what is under way, and how long it took when it ends."""

    def update(self, text: str) -> None:
        """Add a detail to the phase under way; shown on terminals only."""

    def show(self, table: RenderableType, *, line: str) -> None:
        """Keep a table below the phase under way; elsewhere than on terminals, a line at times."""

    def hide(self) -> None:
        """Show that table no more."""


class Within:
    """Reports what is done within a phase of another reporter: details, no lines of their own."""

    def __init__(self, outer: Reporter) -> None:
        self._outer = outer

    def note(self, text: str) -> None:
        """Say something as a detail."""
        self._outer.update(text)

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Say what is under way as a detail."""
        self._outer.update(text)
        yield

    def update(self, text: str) -> None:
        """Add a detail."""
        self._outer.update(text)

    def show(self, table: RenderableType, *, line: str) -> None:
        """Show a table as the outer reporter does."""
        self._outer.show(table, line=line)

    def hide(self) -> None:
        """Show that table no more."""
        self._outer.hide()


class ConsoleReporter:
    """Reports to a terminal or a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._phase = ""
        self._text = ""
        self._table: RenderableType | None = None
        self._line_at = 0.0

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        self._console.print(text, highlight=False)

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Say what is under way, and how long it took when it ends."""
        began = time.monotonic()
        self._phase = text
        self._write(text)
        if self._status is not None:
            self._status.start()
        try:
            yield
        except BaseException:
            self._end(f"  [red]✗[/] {text}", began)
            raise
        self._end(f"  [green]✓[/] {text}", began)

    def update(self, text: str) -> None:
        """Add a detail to the phase under way; shown on terminals only."""
        self._write(f"{self._phase}: {text}")

    def show(self, table: RenderableType, *, line: str) -> None:
        """Keep a table below the phase under way; elsewhere than on terminals, a line at times."""
        if self._status is not None:
            self._table = table
            self._write(self._text)
        elif time.monotonic() - self._line_at >= _LINE_EVERY_S:
            self._line_at = time.monotonic()
            self.note(line)

    def hide(self) -> None:
        """Show that table no more."""
        self._table = None
        self._write(self._text)

    def _write(self, text: str) -> None:
        self._text = text
        if self._status is not None:
            self._status.update(text if self._table is None else Group(text, self._table))

    def _end(self, text: str, began: float) -> None:
        if self._status is not None:
            self._status.stop()
        self._console.print(f"{text} [dim]{time.monotonic() - began:.1f} s[/]", highlight=False)
