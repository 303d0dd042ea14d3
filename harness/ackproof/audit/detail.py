"""What an audit computes besides the risks. Its own module, so that `--help` imports little."""

from __future__ import annotations

from enum import Flag, auto


class Detail(Flag):
    """What an audit has besides the risks, because an output shows it.

    TABLES: the table and the worst loss of each answer. CHANGED: the risks after changes. FAILING,
    EVERY: the traces of losses that fail, and of all.
    """

    NOTHING = 0
    TABLES = auto()
    CHANGED = auto()
    FAILING = auto()
    EVERY = auto()
