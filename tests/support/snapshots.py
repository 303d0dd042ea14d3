"""Texts as snapshots store them."""

from __future__ import annotations


def plain(text: str, **names: object) -> str:
    """Return a text without what differs between two runs.

    Spaces at the end of a line are left out. names: for each word that the snapshot has, what this
    run has in its place, such as a path.
    """
    for name, path in names.items():
        text = text.replace(str(path), name)
    return "\n".join(line.rstrip() for line in text.splitlines())
