"""The base of all conditions: their text.

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
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from ackproof_faults.conditions.durations import DURATION, format_duration, parse_duration
from ackproof_faults.conditions.observation import Observation


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
    """A condition without alternatives; `TEXT` is its form in a scenario."""

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

    A message has it in place of all legal forms. `vocabulary` has the fixed words of legal texts.
    """
    if not isinstance(text, str):
        return ""
    words = sorted(vocabulary)
    corrected = " ".join(
        word if word in words else next(iter(get_close_matches(word, words, 1)), word)
        for word in text.split()
    )
    return f"; did you mean {corrected!r}?" if corrected != text and is_legal(corrected) else ""
