"""Shards: the part of a suite that one of several CI jobs runs (`--shard 2/5`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from ackproof.errors import ScenarioError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Shard `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `2/5`; an empty text means everything. Raises ScenarioError for any other text."""
        match = re.fullmatch(r"([0-9]+)/([0-9]+)", text or "1/1")
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ScenarioError(
                f"{text!r} is not a shard",
                hint="Write I/N with I from 1 to N: 2/5 is the second of five shards.",
            )
        return cls(number=int(match[1]), of=int(match[2]))


def share(items: Sequence[T], shard: Shard) -> list[T]:
    """Return the items of a shard. Every item is in one shard; sizes differ by at most 1."""
    return list(items[shard.number - 1 :: shard.of])
