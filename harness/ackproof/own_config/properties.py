"""Reads Java's .properties files, as `java.util.Properties` does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof.errors import ScenarioError
from ackproof.own_config.settings import Given

_PAIR = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str, name: str) -> dict[str, Given]:
    """Return the settings of a file; the last of equal keys counts, as in Java.

    Raises ScenarioError for a line without a key, or with a value that is no line of text.
    """
    found: dict[str, Given] = {}
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None
        key, value = _unescaped(pair[1]), _unescaped(pair[2]).strip()
        source = f"{name}:{number}"
        if not key or not re.fullmatch(r"[A-Za-z0-9._-]+", key):
            raise ScenarioError(
                f"{source}: {line[:60]!r} is not a setting",
                hint="A line is `key=value`; comments begin with #.",
            )
        if not value.isprintable():
            raise ScenarioError(f"{source}: the value of {key} has characters that do not print")
        found[key] = Given(value, source)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, each with its number; a backslash at its end joins two."""
    begun, collected = 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip()
        if not collected and (not line or line[0] in "#!"):
            continue
        begun = begun if collected else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            collected += line[:-1]
            continue
        yield begun, collected + line
        collected = ""
    if collected:
        yield begun, collected


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", plain, text)
