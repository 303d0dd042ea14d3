"""The first step of a real trace that the rules cannot explain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """An unexplained step, in words.

    where: ``orders-0``, or ``metadata offset 16 about orders-0``. observed: the step. before: the
    state before it, empty if there is none. expected: the steps that the rules allow, one line for
    each event or election under which the step might have happened.
    """

    where: str
    observed: str
    before: str = ""
    expected: tuple[str, ...]

    def __str__(self) -> str:
        rules = "; ".join(self.expected) or "nothing"
        state = f" (it was {self.before})" if self.before else ""
        return f"{self.where}: {self.observed}{state}; by the rules: {rules}"
