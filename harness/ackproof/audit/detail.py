"""What an audit computes besides the risks. Its own module, so that `--help` imports little."""

from __future__ import annotations

from enum import Flag, auto


class Detail(Flag):
    """What takes long, and is there only if an output shows it.

    TABLES: the table of each answer. CHANGED: the risks after changes. TRACES: the traces of all
    losses; without it, only of the worst loss of each answer.
    """

    NOTHING = 0
    TABLES = auto()
    CHANGED = auto()
    TRACES = auto()
