"""One part of a suite for each of several CI jobs: `--shard 2/5`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from ackproof.errors import ScenarioError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The part `number` (from 1) of `of`."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/5`; nothing means all. Raises ScenarioError if it is no shard."""
        match = re.fullmatch(r"([0-9]+)/([0-9]+)", text or "1/1")
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ScenarioError(
                f"{text!r} is not a shard", hint="Name the part and the number of parts: 2/5."
            )
        return cls(number=int(match[1]), of=int(match[2]))


def share(items: Sequence[T], shard: Shard) -> list[T]:
    """Return a shard's part: every item is in exactly one, and their sizes differ by at most 1."""
    return list(items[shard.number - 1 :: shard.of])
