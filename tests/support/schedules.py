"""Steps of schedules, and observations for conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter

from ackproof_faults.schedule.blocks import StepList

STEPS: TypeAdapter[list[Any]] = TypeAdapter(Annotated[list[Any], StepList])


def kill(target: object = 1, **more: object) -> dict[str, object]:
    return {"fault": "kill", "target": target, **more}


def cut(target: object = 1, **more: object) -> dict[str, object]:
    return {"fault": "isolate_replication", "target": target, **more}


@dataclass(kw_only=True)
class Observed:
    """An observation of a schedule, as conditions see it."""

    acked: int = 0
    acked_more: int = 0
    sent: int = 0
    sent_more: int = 0
    size: int | None = 3
    members: tuple[int, ...] = ()
    eligible: tuple[int, ...] | None = ()
    led_last: int | None = None
    leads: int | None = 1
    leader_epoch: int | None = 0
    unchanged_s: float | None = None
    group_lag: int | None = None
    log: tuple[int, str] = (0, "")
    event: tuple[str, str] = ("", "")
    changed: bool = False
    seconds: float = 0.0

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        return int(getattr(self, f"{outcome}_more" if more else outcome))

    def isr(self, topic: str, partition: int) -> tuple[int, ...] | None:
        return None if self.size is None else self.members or tuple(range(self.size))

    def elr(self, topic: str, partition: int) -> tuple[int, ...] | None:
        return self.eligible

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        return self.led_last

    def leader(self, topic: str, partition: int) -> int | None:
        return self.leads

    def leaderless(self, topic: str, partition: int) -> bool:
        return self.leads is None and self.size is not None

    def epoch(self, topic: str, partition: int) -> int | None:
        return self.leader_epoch

    def high_watermark_unchanged_s(self, topic: str, partition: int) -> float | None:
        return self.unchanged_s

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        return self.group_lag if group == "readers" else None

    def log_contains(self, broker: int | None, text: str) -> bool:
        return broker in (None, self.log[0]) and text in self.log[1]

    def fault_event(self, fault: str, event: str) -> bool:
        return (fault, event) == self.event

    def leader_changed(self, topic: str, partition: int) -> bool:
        return self.changed

    def elapsed_s(self) -> float:
        return self.seconds
