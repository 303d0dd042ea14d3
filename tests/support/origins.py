"""Origins of values, as reports print them."""

from __future__ import annotations

from ackproof.own_config.configuration import FileLine


def at(text: str) -> FileLine:
    """Return the line of a file, such as `server.properties:4`."""
    file, _, line = text.rpartition(":")
    return FileLine(file, int(line))
