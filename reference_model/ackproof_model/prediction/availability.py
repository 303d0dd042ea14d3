"""Whether a partition can be read and written, for each part of a schedule.

A part lasts until the next fault begins, a fault is healed, or the run ends. The answer is that of
the last state of the part, when all timers that must fire have fired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ackproof_model.prediction.model import Model
from ackproof_model.prediction.result import Ability, Availability
from ackproof_model.prediction.state import Layer
from ackproof_model.replication.state import members


def availability(
    model: Model, available: Mapping[Layer, set[tuple[bool, bool]]]
) -> tuple[Availability, ...]:
    """Return the parts in the order of the schedule.

    available: whether the partition can be read, and written, at the end of each part.
    """
    return tuple(
        Availability(
            part=_words(model, part),
            begun=part[0],
            healed=tuple(fault + 1 for fault in members(part[1])),
            readable=_ability({read for read, _ in available[part]}),
            writable=_ability({write for _, write in available[part]}),
        )
        for part in sorted(available, key=lambda one: (one[2], one[0], one[1]))
    )


def joined(several: Sequence[Sequence[Availability]]) -> tuple[Availability, ...]:
    """Return one answer for several partitions: `either` where they differ."""
    rows: dict[str, Availability] = {}
    for row in (row for one in several for row in one):
        known = rows.setdefault(row.part, row)
        rows[row.part] = replace(
            known,
            readable=known.readable if known.readable == row.readable else Ability.EITHER,
            writable=known.writable if known.writable == row.writable else Ability.EITHER,
        )
    return tuple(rows.values())


def _ability(seen: set[bool]) -> Ability:
    if len(seen) > 1:
        return Ability.EITHER
    return Ability.CAN if True in seen else Ability.CANNOT


def _words(model: Model, part: Layer) -> str:
    injected, healed, over = part
    every = healed == (1 << injected) - 1
    if every and (over or injected == model.faults):
        return "at the end"
    if not injected:
        return "before the first fault"
    text = f"after fault {injected} ({model.schedule[injected - 1].fault}) begins"
    gone = [str(fault + 1) for fault in members(healed)]
    return f"{text}, {', '.join(gone)} healed" if gone else text
