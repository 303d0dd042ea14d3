"""Producers' clocks are wrong: their records carry timestamps of the past or the future.

With `message.timestamp.type` CreateTime retention uses these timestamps, not the broker's clock:
with a `retention.ms`, records that seem old are deleted at the next check, and records that seem
new stay. From 4.0 on, brokers refuse a batch whose timestamps differ by more than one hour
(`message.timestamp.before.max.ms`, `after.max.ms`; INVALID_TIMESTAMP, KIP-937).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.clients._client_fault import OrderedFault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.interfaces.clients import Order, ProducerName
from ackproof_model.effects import Client, Effects


class SkewTimestamps(OrderedFault):
    """Make producers send with wrong timestamps."""

    fault: Literal["skew_timestamps"] = "skew_timestamps"
    proof: ClassVar[str] = "the client has counted records that it sent with such a timestamp"
    client: ProducerName = "producers"
    by: Duration = Field(gt=0, description="how far the timestamps are off", examples=["90m"])
    direction: Literal["past", "future"] = Field(
        default="past", description="whether the timestamps lie in the past or in the future"
    )

    @property
    def effects(self) -> Effects:
        by = self.by if self.direction == "future" else -self.by
        return (Client(role=self.role, action="misdates", by=by),)

    @property
    def order(self) -> tuple[Order, int]:
        milliseconds = max(1, int(self.by * 1000))
        return "skew", milliseconds if self.direction == "future" else -milliseconds

    @property
    def counted(self) -> str:
        return f"records sent as if {self.by:g} s in the {self.direction}"
