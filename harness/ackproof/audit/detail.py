"""What an audit computes besides the risks. Its own module, so that `--help` imports little."""

from __future__ import annotations

from enum import Flag, auto


class Detail(Flag):
    """What takes long, and is there only if an output shows it.

    TABLES: a table. EVERY_VALUE: where little is known, the table for all values with its changes,
    beside that for usual values. CHANGED: the risks after changes. TRACES: the traces of all
    losses; without it, only of the worst loss of each answer. REMEDIES: the changes that remove
    each loss, and the prices of all changes.
    """

    NOTHING = 0
    TABLES = auto()
    EVERY_VALUE = auto()
    CHANGED = auto()
    TRACES = auto()
    REMEDIES = auto()


#: What a finding shows: the way to a loss, and the file and line of the setting that removes it.
FINDINGS = Detail.TRACES | Detail.REMEDIES
