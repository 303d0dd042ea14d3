"""What an audit looks for: effects, failures and kinds of risks, for `--list` and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ackproof.audit.failure import EVENTS, Failure
from ackproof.audit.risks import kinds
from ackproof.audit.words import EFFECTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table. head: of its columns."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def markdown(self) -> str:
        """The table for a page; names are code."""
        lines = [self.head, ("---",) * len(self.head)]
        lines += [(f"`{name}`", *cells) for name, *cells in self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def effects() -> Listing:
    rows = tuple((str(effect), text) for effect, text in EFFECTS.items())
    return Listing(title="Effects", head=("name", "effect"), rows=rows)


def failures() -> Listing:
    rows = tuple((str(failure), EVENTS[failure].meaning) for failure in Failure)
    return Listing(title="Failures", head=("name", "event"), rows=rows)


def risks() -> Listing:
    return Listing(
        title="Kinds of risks",
        head=("name", "what happens", "effects", "after", "cases", "removed by"),
        rows=tuple(_rows()),
    )


def _rows() -> Iterator[tuple[str, ...]]:
    for name, kind in kinds().items():
        removed_by = [f"{setting}={value}" for setting, value in kind.removed_by.items()]
        yield (
            name,
            kind.title,
            _joined(kind.effects),
            _joined(kind.failures) or "no failure",
            _joined(kind.all_cases),
            _joined(removed_by, "; "),
        )


def _joined(parts: Sequence[str], by: str = ", ") -> str:
    return by.join(map(str, parts))
