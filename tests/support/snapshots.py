"""Texts as snapshots store them."""

from __future__ import annotations


def plain(text: str, **names: object) -> str:
    """Return a text without what differs between two runs.

    Spaces at the end of a line are left out. names: a path of this run for each word that stands
    for it.
    """
    for name, path in names.items():
        text = text.replace(str(path), name)
    return "\n".join(line.rstrip() for line in text.splitlines())
