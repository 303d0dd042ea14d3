"""The shape of a partition as the controller has it, and a step between two shapes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ackproof_model.replication.state import NOBODY, Controller, Label, members, name


class Shape(NamedTuple):
    """Leader, ISR, ELR and last known leader of a partition.

    Replicas are numbered in assignment order; `NOBODY` stands for no leader.
    """

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known: int = NOBODY

    def __str__(self) -> str:
        parts = [f"leader {name(self.leader)}" if self.leader >= 0 else "no leader"]
        parts.append(f"ISR {_listed(self.isr)}")
        if self.elr:
            parts.append(f"ELR {_listed(self.elr)}")
        if self.last_known >= 0:
            parts.append(f"last leader {name(self.last_known)}")
        return ", ".join(parts)


class Pair(NamedTuple):
    """A step by its name, and the shape before and after it.

    Most steps leave the shape as it is: a process ends, a broker learns of a leader, a record is
    acked. In which shape they happen is part of the pair.
    """

    step: str
    before: Shape
    after: Shape

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.step} at {self.before}"
        return f"{self.step}: from {self.before} to {self.after}"


@lru_cache(maxsize=1 << 14)
def shape_of(controller: Controller) -> Shape:
    return Shape(
        controller.leader,
        tuple(members(controller.isr)),
        tuple(members(controller.elr)),
        controller.last_known,
    )


def pair_of(label: Label, before: Controller, after: Controller) -> Pair:
    return Pair(label[0], shape_of(before), shape_of(after))


def _listed(replicas: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(name, replicas)) + "}"
