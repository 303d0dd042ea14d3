"""The base of all conditions: their text, and the observation that they evaluate.

A condition is a frozen dataclass. Its `TEXT` has its fields in braces; the type of each field
defines how its part of the text is matched, read and written (`Token`).
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from string import Formatter
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, get_type_hints

from ackproof_faults.conditions.durations import DURATION, format_duration, parse_duration

FaultEvent = Literal["began", "ended", "recovered"]


class Observation(Protocol):
    """The sends, the cluster and the earlier faults that conditions are evaluated on.

    Relative conditions count from the mark: the previous fault's verification in `when`, the
    fault's own in `heal_when`. None stands for a value that is unknown now.
    """

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        """Return how many sends are acked or handed over, in all or (`more`) since the mark."""

    def elapsed_s(self) -> float:
        """Return the seconds since the mark."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader; None also while it has none."""

    def leader_changed(self, topic: str, partition: int) -> bool:
        """Whether the partition has another leader than at the mark."""

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's committed ISR."""

    def leaderless(self, topic: str, partition: int) -> bool:
        """Whether the partition is known to have no leader."""

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's eligible leader replicas."""

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's last known leader; None also while the ISR has a member."""

    def epoch(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader epoch."""

    def high_watermark_unchanged_s(self, topic: str, partition: int) -> float | None:
        """Return for how many seconds the partition's high watermark has not moved."""

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        """Return the high watermark minus the offset that the group has committed."""

    def log_contains(self, broker: int | None, text: str) -> bool:
        """Whether the broker (None: any broker) has logged a line with `text` since the mark."""

    def fault_event(self, fault: str, event: FaultEvent) -> bool:
        """Whether the event happened to a fault with this name or id."""


@dataclass(frozen=True, slots=True)
class Token:
    """One field of a condition in its text."""

    pattern: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str


_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

Operator = Annotated[Literal["==", "!=", "<=", ">=", "<", ">"], Token("|".join(_OPERATORS))]
Number = Annotated[int, Token("[0-9]+", int)]
Seconds = Annotated[float, Token(DURATION, parse_duration, format_duration)]


def compares(value: int | None, op: str, other: int) -> bool:
    """Whether `value op other` is true; never for an unknown value (None)."""
    return value is not None and _OPERATORS[op](value, other)


class Condition(ABC):
    """A condition on an observation."""

    __slots__ = ()

    @abstractmethod
    def holds(self, observation: Observation) -> bool:
        """Whether the condition holds now; False if a value that it needs is unknown."""

    def known(self, observation: Observation) -> bool:
        """Whether the values that the condition needs are known now."""
        return True

    @property
    def alternatives(self) -> tuple[Condition, ...]:
        """The conditions, of which at least one must hold."""
        return (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCondition(Condition):
    """A condition without alternatives; `TEXT` is its form in a scenario.

    Raises ValueError if the fields cannot be written, for example a negative count.
    """

    TEXT: ClassVar[str]
    #: The forms that a message about a wrong condition lists.
    FORMS: ClassVar[Sequence[str]]

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse `text`; None if it is a condition of another kind."""
        match = re.fullmatch(cls.pattern(), text)
        if match is None:
            return None
        tokens = _tokens(cls)
        groups = zip(_fields(cls), match.groups(), strict=True)
        return cls(**{name: tokens[name].read(group) for name, group in groups})

    @classmethod
    def pattern(cls) -> str:
        """Return the regular expression of the text, with one group for each field."""
        tokens = _tokens(cls)
        return cls.TEXT.format(**{name: f"({token.pattern})" for name, token in tokens.items()})

    def __post_init__(self) -> None:
        if re.fullmatch(self.pattern(), str(self)) is None:
            raise ValueError(f"{str(self)!r} is not a condition ({', '.join(self.FORMS)})")

    def __str__(self) -> str:
        tokens = _tokens(type(self))
        return self.TEXT.format(
            **{name: token.write(getattr(self, name)) for name, token in tokens.items()}
        )


@cache
def _tokens(kind: Any) -> dict[str, Token]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in _fields(kind)}


def _fields(kind: Any) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(kind.TEXT) if name]


def did_you_mean(text: object, vocabulary: Iterable[str], is_legal: Callable[[str], bool]) -> str:
    """Return `; did you mean …?` with misspelt words of `text` corrected, '' if that is not legal.

    `vocabulary` has the fixed words of legal texts.
    """
    if not isinstance(text, str):
        return ""
    words = sorted(vocabulary)
    corrected = " ".join(
        word if word in words else next(iter(get_close_matches(word, words, 1)), word)
        for word in text.split()
    )
    return f"; did you mean {corrected!r}?" if corrected != text and is_legal(corrected) else ""
