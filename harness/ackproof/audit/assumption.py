"""The values of settings that no file states, which an answer assumes: `when` of a risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Assumed values of settings that nobody states.
When = Mapping[str, "str | Versions"]
#: The same, hashable.
Condition = tuple[tuple[str, "str | Versions"], ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of Kafka: ranges with their first and last one, '' for all later ones."""

    ranges: tuple[tuple[str, str], ...]

    @property
    def newest(self) -> bool:
        """Whether the newest version is among them."""
        return any(not last for _, last in self.ranges)

    def __str__(self) -> str:
        return " or ".join(
            first if first == last else f"{first} to {last}" if last else f"{first} or later"
            for first, last in self.ranges
        )
