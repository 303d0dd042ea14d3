"""The budget of an adversary: how often each kind of perturbation may happen.

A state of a search has what is left of it: a number for each kind, and last the one for all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

#: The largest number in a budget.
_MOST = 7

#: What is left of a budget.
Left = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """A budget has a field for each of its `KINDS`, and fields that limit the search otherwise.

    in_all: all perturbations together, None for their sum.
    """

    KINDS: ClassVar[tuple[str, ...]]

    in_all: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not 0 <= value <= _MOST:
                raise ValueError(f"{field.name} is {value}: it must be from 0 to {_MOST}")
        if self.perturbations > _MOST:
            raise ValueError(
                f"{self.perturbations} perturbations in all: at most {_MOST} can be searched; "
                "set in_all"
            )

    @property
    def of_kinds(self) -> tuple[int, ...]:
        """The number of each kind, in the order of `KINDS`."""
        return tuple(getattr(self, kind) for kind in self.KINDS)

    @property
    def perturbations(self) -> int:
        total = sum(self.of_kinds)
        return total if self.in_all is None else min(total, self.in_all)

    @property
    def allowed(self) -> list[str]:
        """The kinds of which there are any."""
        return self.spent((0,) * len(self.KINDS))

    def spent(self, left: Left) -> list[str]:
        """Return the kinds of which less is left."""
        kinds = zip(self.KINDS, self.of_kinds, left, strict=False)
        return [kind for kind, number, rest in kinds if rest < number]

    @property
    def left(self) -> Left:
        return (*self.of_kinds, self.perturbations)

    @classmethod
    def spend(cls, left: Left, kind: str) -> Left:
        """Return what is left after a perturbation of a kind."""
        at = {cls.KINDS.index(kind), len(cls.KINDS)}
        return tuple(number - (n in at) for n, number in enumerate(left))
