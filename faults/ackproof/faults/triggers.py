"""When a fault begins or ends: conditions on state, and on time.

=============================  ==================================================================
``2000 acked``                 so many sends are acked (or ``sent``) since the run began
``500 more acked``             so many since the previous fault was verified (in `heal_when`:
                               since this fault was verified)
``isr of orders-0 == 3``       the committed ISR has that size (``== != < <= > >=``)
``leader of orders-0 changed`` it has a leader, other than the one when the fault before was
                               injected (in `heal_when`: when this fault was injected)
``after 5s``                   so much time since the previous fault was verified (in
                               `heal_when`: since this one was)
=============================  ==================================================================

`state` has those on leaders, epochs, high watermarks, lags, logs and other faults.
State is preferred to time: it makes a loss reproducible instead of lucky.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ackproof.faults import state
from ackproof.faults.state import COMPARISON, OPERATORS, StateCondition
from ackproof.faults.targets import TOPIC_PARTITION

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}

_DURATION = r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m)"
_PROGRESS = re.compile(r"(?P<count>[0-9]+)(?P<more> more)? (?P<outcome>acked|sent)")
_ISR = re.compile(rf"isr of {TOPIC_PARTITION} {COMPARISON} (?P<size>[0-9]+)")
_LEADER = re.compile(rf"leader of {TOPIC_PARTITION} changed")
_AFTER = re.compile(rf"after {_DURATION}")
_LEGAL = (
    "'N acked', 'N more acked', 'N sent', 'N more sent', 'isr of TOPIC-N == K', "
    f"'leader of TOPIC-N changed', 'after 5s', {state.LEGAL}"
)


class Observation(state.State, Protocol):
    """What conditions look at; `mark` is the moment a condition counts from."""

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        """Return how many sends are acked or handed over, in all or since the mark."""

    def leader_changed(self, topic: str, partition: int) -> bool:
        """Whether the partition has a leader, other than the one at the mark."""

    def elapsed(self) -> float:
        """Return the seconds since the mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressIs:
    """At least `count` sends are acked or sent, in all or (`more`) since the mark."""

    count: int
    outcome: Literal["acked", "sent"]
    more: bool

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.count(self.outcome, more=self.more) >= self.count

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"{self.count}{' more' if self.more else ''} {self.outcome}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIs:
    """The partition's committed ISR compares to `size` as `op` says."""

    topic: str
    partition: int
    op: str
    size: int

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        isr = seen.isr(self.topic, self.partition)
        return isr is not None and bool(OPERATORS[self.op](len(isr), self.size))

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"isr of {self.topic}-{self.partition} {self.op} {self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanges:
    """The partition has a leader, other than the one at the mark."""

    topic: str
    partition: int

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.leader_changed(self.topic, self.partition)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"leader of {self.topic}-{self.partition} changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """So many seconds have passed since the mark."""

    seconds: float

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.elapsed() >= self.seconds

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"after {format_duration(self.seconds)}"


Condition = ProgressIs | IsrIs | LeaderChanges | After | StateCondition


def format_duration(seconds: float) -> str:
    """Return seconds as a scenario writes them: ``5s``, ``1.5s``."""
    return f"{seconds:g}s"


def parse_duration(value: object) -> float:
    """Return the seconds in ``5s``, ``250ms``, ``2m`` or a bare number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    match = re.fullmatch(_DURATION, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration ('5s', '250ms', '2m', or seconds)")
    return float(match["number"]) * _UNITS[match["unit"]]


def parse_condition(text: object) -> Condition:
    """Return the condition that `text` writes; raise ValueError with the legal set."""
    if isinstance(text, Condition):
        return text
    if isinstance(text, str):
        if match := _PROGRESS.fullmatch(text):
            return ProgressIs(
                count=int(match["count"]),
                outcome="acked" if match["outcome"] == "acked" else "sent",
                more=match["more"] is not None,
            )
        if match := _ISR.fullmatch(text):
            return IsrIs(
                topic=match["topic"],
                partition=int(match["partition"]),
                op=match["op"],
                size=int(match["size"]),
            )
        if match := _LEADER.fullmatch(text):
            return LeaderChanges(topic=match["topic"], partition=int(match["partition"]))
        if match := _AFTER.fullmatch(text):
            return After(seconds=float(match["number"]) * _UNITS[match["unit"]])
        if condition := state.read(text):
            return condition
    raise ValueError(f"{text!r} is not a condition ({_LEGAL})")


class Conditions(tuple[Condition, ...]):
    """Conditions that must all hold; none at all holds at once."""

    __slots__ = ()

    def hold(self, seen: Observation) -> bool:
        """Whether every condition holds now."""
        return all(condition.holds(seen) for condition in self)

    def __str__(self) -> str:
        """Return the conditions in words."""
        return " and ".join(map(str, self)) or "at once"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate instances only (text is parsed before), and write them as text."""
        return core_schema.is_instance_schema(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda conditions: [str(condition) for condition in conditions]
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Publish what a scenario may write."""
        topic = r"[A-Za-z0-9._-]+-[0-9]+"
        pattern = (
            r"^([0-9]+( more)? (acked|sent)"
            rf"|isr of {topic} (==|!=|<=|>=|<|>) [0-9]+"
            rf"|leader of {topic} changed"
            r"|after [0-9]+(\.[0-9]+)? ?(ms|s|m)"
            rf"|{'|'.join(state.schema_patterns())})$"
        )
        one: Mapping[str, object] = {"type": "string", "pattern": pattern}
        return {"anyOf": [one, {"type": "array", "items": one}]}


def parse_trigger(value: object) -> Conditions:
    """Return the conditions in one text or a list of texts."""
    items = value if isinstance(value, list | tuple) else [value]
    return Conditions(parse_condition(item) for item in items)


Trigger = Annotated[Conditions, BeforeValidator(parse_trigger)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m)$"},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]
