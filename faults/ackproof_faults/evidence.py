"""The evidence that a fault took effect, and the error if it did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


class FaultError(Exception):
    """A fault could not be injected, did not hold, or could not be healed."""


Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The observations of `Fault.verify`: `text` for people, `facts` for programs.

    Both are stored in the run's table `fault_windows`, `facts` as JSON. No program parses `text`.
    """

    text: str
    facts: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def joined(cls, texts: Iterable[str]) -> Evidence:
        """Return the evidence of several nodes or clients."""
        return cls(text="; ".join(texts))
