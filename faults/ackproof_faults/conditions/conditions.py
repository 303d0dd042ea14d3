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
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ackproof_faults.conditions import cluster_state
from ackproof_faults.conditions.cluster_state import StateCondition
from ackproof_faults.conditions.durations import DURATION, Duration, format_duration
from ackproof_faults.conditions.syntax import (
    COMPARISON,
    OfPartition,
    Written,
    compares,
)
from ackproof_faults.conditions.targets import TOPIC_PARTITION

_LEGAL = (
    "'N acked', 'N more acked', 'N sent', 'N more sent', 'isr of TOPIC-N == K', "
    f"'leader of TOPIC-N changed', 'after 5s', {cluster_state.LEGAL}"
)


class Observation(cluster_state.State, Protocol):
    """What conditions look at; `mark` is the moment a condition counts from."""

    def count(self, outcome: Literal["acked", "sent"], *, more: bool) -> int:
        """Return how many sends are acked or handed over, in all or since the mark."""

    def leader_changed(self, topic: str, partition: int) -> bool:
        """Whether the partition has a leader, other than the one at the mark."""

    def elapsed(self) -> float:
        """Return the seconds since the mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressIs(Written):
    """At least `count` sends are acked or sent, in all or (`more`) since the mark."""

    PATTERN: ClassVar = re.compile(r"(?P<count>[0-9]+)(?P<more> more)? (?P<outcome>acked|sent)")

    count: int
    outcome: Literal["acked", "sent"]
    more: Annotated[bool, BeforeValidator(bool)]

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.count(self.outcome, more=self.more) >= self.count

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"{self.count}{' more' if self.more else ''} {self.outcome}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIs(OfPartition):
    """The partition's committed ISR compares to `size` as `op` says."""

    PATTERN: ClassVar = re.compile(rf"isr of {TOPIC_PARTITION} {COMPARISON} (?P<size>[0-9]+)")

    op: str
    size: int

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        isr = seen.isr(self.topic, self.partition)
        return compares(None if isr is None else len(isr), self.op, self.size)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"isr of {self.place} {self.op} {self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanges(OfPartition):
    """The partition has a leader, other than the one at the mark."""

    PATTERN: ClassVar = re.compile(rf"leader of {TOPIC_PARTITION} changed")

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.leader_changed(self.topic, self.partition)

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"leader of {self.place} changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class After(Written):
    """So many seconds have passed since the mark."""

    PATTERN: ClassVar = re.compile(rf"after (?P<seconds>{DURATION})")

    seconds: Duration

    def holds(self, seen: Observation) -> bool:
        """Whether the condition holds now."""
        return seen.elapsed() >= self.seconds

    def __str__(self) -> str:
        """Return the condition as a scenario writes it."""
        return f"after {format_duration(self.seconds)}"


Condition = ProgressIs | IsrIs | LeaderChanges | After | StateCondition
_KINDS: tuple[type[Condition], ...] = get_args(Condition)


def parse_condition(text: object) -> Condition:
    """Return the condition that `text` writes; raise ValueError with the legal set."""
    if isinstance(text, Condition):
        return text
    if isinstance(text, str):
        for kind in _KINDS:
            if condition := kind.read(text):
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
        pattern = f"^({'|'.join(kind.schema_pattern() for kind in _KINDS)})$"
        one: Mapping[str, object] = {"type": "string", "pattern": pattern}
        return {"anyOf": [one, {"type": "array", "items": one}]}


def parse_trigger(value: object) -> Conditions:
    """Return the conditions in one text or a list of texts."""
    items = value if isinstance(value, list | tuple) else [value]
    return Conditions(parse_condition(item) for item in items)


Trigger = Annotated[Conditions, BeforeValidator(parse_trigger)]
