"""Periodic work in a thread of its own."""

from __future__ import annotations

import abc
import threading
from typing import Self


class Repeating(abc.ABC):
    """Calls `turn` in a thread at once, and again `every_s` seconds after each call has ended.

    The calls end with the context.
    """

    def __init__(self, *, every_s: float, name: str) -> None:
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abc.abstractmethod
    def turn(self) -> bool | None:
        """Do the work once; return True to end it."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the current turn, and start no other."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.turn():
            if self._over.wait(self._every_s):
                return
