"""Something done again and again, in a thread of its own, while a context is open."""

from __future__ import annotations

import abc
import threading
from types import TracebackType
from typing import Self


class Repeating(abc.ABC):
    """Takes a `turn` at once, and another `every_s` seconds after each, until its context ends."""

    def __init__(self, *, every_s: float, name: str) -> None:
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abc.abstractmethod
    def turn(self) -> bool | None:
        """Do it once; return True if there is nothing left to do."""

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take no further turn; one that is under way is waited for."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.turn():
            if self._over.wait(self._every_s):
                return
