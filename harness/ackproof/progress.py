"""Progress messages: a live line on a terminal, one line for each phase elsewhere.

They go to standard error, so that standard output has only results.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console, Group, RenderableType

#: Seconds between two lines of `show` where there is no terminal.
_LINE_EVERY_S = 5.0


class Reporter(Protocol):
    """Reports the progress of long work to its user."""

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""

    def phase(self, text: str) -> contextlib.AbstractContextManager[None]:
        """Show what is in progress, and how long it took when it ends."""

    def update(self, text: str) -> None:
        """Show a detail of the current phase, on terminals only."""

    def show(self, table: RenderableType, *, line: str) -> None:
        """Show a table below the current phase; without a terminal, print `line` at intervals."""

    def hide(self) -> None:
        """Remove the table."""


class DetailReporter:
    """Reports within a phase of another reporter: everything becomes a detail of that phase."""

    def __init__(self, outer: Reporter) -> None:
        self._outer = outer

    def note(self, text: str) -> None:
        self._outer.update(text)

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
        self._outer.update(text)
        yield

    def update(self, text: str) -> None:
        self._outer.update(text)

    def show(self, table: RenderableType, *, line: str) -> None:
        self._outer.show(table, line=line)

    def hide(self) -> None:
        self._outer.hide()


class ConsoleReporter:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._phase = ""
        self._text = ""
        self._table: RenderableType | None = None
        self._line_at = 0.0

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def phase(self, text: str) -> Iterator[None]:
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
        self._write(f"{self._phase}: {text}")

    def show(self, table: RenderableType, *, line: str) -> None:
        if self._status is not None:
            self._table = table
            self._write(self._text)
        elif time.monotonic() - self._line_at >= _LINE_EVERY_S:
            self._line_at = time.monotonic()
            self.note(line)

    def hide(self) -> None:
        self._table = None
        self._write(self._text)

    def _write(self, text: str) -> None:
        self._text = text
        if self._status is not None:
            self._status.update(text if self._table is None else Group(text, self._table))

    def _end(self, text: str, began: float) -> None:
        if self._status is not None:
            self._status.stop()
        took = f"[dim]{time.monotonic() - began:.1f} s[/]"
        self._console.print(f"{text} {took}", highlight=False, soft_wrap=True)
