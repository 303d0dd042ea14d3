"""Conditions on the progress of the workload: sends, acks and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ackproof_faults.conditions.condition import (
    Number,
    Observation,
    Seconds,
    SimpleCondition,
    Token,
)


def _write_more(more: bool) -> str:
    return " more" if more else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressIs(SimpleCondition):
    """At least `count` sends are acked or handed over, in all or (`more`) since the mark."""

    TEXT: ClassVar = "{count}{more} {outcome}"
    FORMS: ClassVar = ("'N acked'", "'N more acked'", "'N sent'", "'N more sent'")

    count: Number
    outcome: Annotated[Literal["acked", "sent"], Token("acked|sent")]
    more: Annotated[bool, Token("(?: more)?", bool, _write_more)]

    def holds(self, observation: Observation) -> bool:
        return observation.count(self.outcome, more=self.more) >= self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class After(SimpleCondition):
    """`seconds` have passed since the mark."""

    TEXT: ClassVar = "after {seconds}"
    FORMS: ClassVar = ("'after 5s'",)

    seconds: Seconds

    def holds(self, observation: Observation) -> bool:
        return observation.elapsed_s() >= self.seconds
