"""The settings of files that an audit does not use, in one line and with all reasons."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.own_config.uses import Unused, Uses

#: The most names in the line.
_MOST_NAMES = 3
#: Characters that the line has at most.
_WIDTH = 80


def in_short(uses: Uses) -> str:
    """Return their number and the first names, as many as a line has room for; '' without any."""
    names = _names(uses)
    if not names:
        return ""
    shown = names[:_MOST_NAMES]
    while len(shown) > 1 and len(", ".join(shown)) > _WIDTH - len(f"{len(names)} settings: …"):
        shown.pop()
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)} setting{'s' * (len(names) > 1)}: {', '.join(shown)}{more}"


def _names(uses: Uses) -> list[str]:
    """Return the different names, by reason: those of no effect come last."""
    return [*dict.fromkeys(one.key for of in uses.by_reason().values() for one in of)]


def by_reason(uses: Uses) -> Iterator[tuple[str, str]]:
    """Yield each reason, and the settings with their lines."""
    for reason, settings in uses.by_reason().items():
        yield reason, ", ".join(map(_with_line, settings))


def _with_line(one: Unused) -> str:
    by = f" by {one.by}" if one.by else ""
    return f"{one.key} ({one.source}{by})"
