"""What conditions have in common: each is written as its pattern says, and read by it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
COMPARISON = r"(?P<op>==|!=|<=|>=|<|>)"


def compares(value: int | None, op: str, wanted: int) -> bool:
    """Whether `value` compares to `wanted` as `op` says; None, "nobody can say now", never does."""
    return value is not None and _OPERATORS[op](value, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A condition whose fields are the groups of `PATTERN`, as pydantic reads them from text."""

    PATTERN: ClassVar[re.Pattern[str]]

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the condition that `text` writes; None if it writes another."""
        kind: Any = cls  # mypy does not call a class with slots hashable
        match = cls.PATTERN.fullmatch(text)
        return None if match is None else _reader(kind).validate_python(match.groupdict())

    @classmethod
    def schema_pattern(cls) -> str:
        """Return the pattern as JSON Schema's regular expressions have it."""
        return re.sub(r"\(\?P<\w+>", "(", cls.PATTERN.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPartition(Written):
    """A condition on one partition."""

    topic: str
    partition: int

    @property
    def place(self) -> str:
        """The partition as a scenario writes it."""
        return f"{self.topic}-{self.partition}"


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
