"""Conditions on events: lines that brokers log, and what happened to other faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ackproof_faults.conditions.condition import FaultEvent, Observation, SimpleCondition, Token


def _read_broker(text: str) -> int | None:
    return int(text) if text else None


def _write_broker(broker: int | None) -> str:
    return "" if broker is None else f" {broker}"


def _read_quoted(text: str) -> str:
    return text.strip("'")


def _write_quoted(text: str) -> str:
    return f"'{text}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays(SimpleCondition):
    """A broker (None: any broker) has logged a line with `text` since the mark."""

    TEXT: ClassVar = "log of broker{broker} says {text}"
    FORMS: ClassVar = ("\"log of broker 1 says 'TEXT'\"",)

    broker: Annotated[int | None, Token("(?: [0-9]+)?", _read_broker, _write_broker)]
    text: Annotated[str, Token("'[^']+'", _read_quoted, _write_quoted)]

    def holds(self, observation: Observation) -> bool:
        return observation.log_contains(self.broker, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultHas(SimpleCondition):
    """A fault with this name or id began, ended (was healed) or recovered.

    Only faults count that began since the innermost sequence did, in a loop since its turn did.
    """

    TEXT: ClassVar = "{fault} {event}"
    FORMS: ClassVar = ("'FAULT began'", "'FAULT ended'", "'FAULT recovered'")

    fault: Annotated[str, Token("[a-z][a-z0-9_-]*")]
    event: Annotated[FaultEvent, Token("began|ended|recovered")]

    def holds(self, observation: Observation) -> bool:
        return observation.fault_event(self.fault, self.event)
