"""The evidence that a fault took effect, the error if it did not, and the time of a fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """The time of a fault. Times are UTC; None means that it has not happened.

    `parameters` is the fault as JSON, without defaults. `evidence` is how the fault was verified,
    or why it was not; `facts` are the numbers of that evidence.
    """

    fault: str
    target: str
    nodes: tuple[int, ...]
    parameters: str
    trigger: str
    injected_at: datetime
    verified_at: datetime | None = None
    healed_at: datetime | None = None
    recovered_at: datetime | None = None
    evidence: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        return self.verified_at is not None
