"""Triggers of faults: conditions that must all hold, each with its alternatives.

In a scenario a trigger is one text, or a list of texts that must all hold. A text joins
alternatives with `` or ``: ``isr of orders-0 == 1 or after 20s``. docs/reference/schedules.md lists
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ackproof_faults.conditions.condition import Condition, SimpleCondition, did_you_mean
from ackproof_faults.conditions.kinds import KINDS
from ackproof_faults.conditions.observation import Observation

_LEGAL = ", ".join(form for kind in KINDS for form in kind.FORMS)
_WORDS = set(re.findall("[a-z]{2,}", _LEGAL))

#: `` or `` outside of quotes.
_OR = re.compile(r" or (?=(?:[^']*'[^']*')*[^']*$)")


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """At least one of several conditions holds. `either` makes one."""

    conditions: tuple[Condition, ...]

    @property
    def alternatives(self) -> tuple[Condition, ...]:
        return self.conditions

    def holds(self, observation: Observation) -> bool:
        return any(condition.holds(observation) for condition in self.conditions)

    def known(self, observation: Observation) -> bool:
        return all(condition.known(observation) for condition in self.conditions)

    def __str__(self) -> str:
        return " or ".join(map(str, self.conditions))


def either(conditions: Iterable[Condition]) -> Condition:
    """Return the condition that at least one of these holds."""
    distinct = tuple(dict.fromkeys(leaf for one in conditions for leaf in one.alternatives))
    return distinct[0] if len(distinct) == 1 else AnyOf(distinct)


class Conditions(tuple[Condition, ...]):
    """Conditions that must all hold; an empty trigger holds at once."""

    __slots__ = ()

    def hold(self, observation: Observation) -> bool:
        return all(condition.holds(observation) for condition in self)

    def unmet(self, observation: Observation) -> str:
        """Return the conditions that do not hold or are unknown, in words."""
        return ", ".join(
            f"{one} {'does not hold' if one.known(observation) else 'is unknown'}"
            for one in self
            if not one.holds(observation)
        )

    @property
    def simple(self) -> Iterator[Condition]:
        """Yield every condition and alternative."""
        return (leaf for condition in self for leaf in condition.alternatives)

    def replaced(self, change: Callable[[Condition], Condition | None]) -> Conditions:
        """Apply `change` to each alternative; a condition without alternatives left is dropped."""
        changed = ([change(leaf) for leaf in one.alternatives] for one in self)
        remaining = ([leaf for leaf in leaves if leaf is not None] for leaves in changed)
        return Conditions(either(leaves) for leaves in remaining if leaves)

    def __str__(self) -> str:
        texts = [
            f"({one})" if len(self) > 1 and len(one.alternatives) > 1 else str(one) for one in self
        ]
        return " and ".join(texts) or "at once"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Accept instances (`parse_trigger` has parsed text before), and write them as texts."""
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
        kinds = "|".join(kind.pattern() for kind in KINDS)
        one: dict[str, object] = {"type": "string", "pattern": f"^(({kinds})( or (?=.)|$))+$"}
        return {"anyOf": [one, {"type": "array", "items": one}]}


def parse_condition(text: object) -> Condition:
    """Parse a condition; raise ValueError with the legal forms."""
    if isinstance(text, Condition):
        return text
    alternatives = _read(text) if isinstance(text, str) else []
    if alternatives:
        return either(alternatives)
    hint = did_you_mean(text, _WORDS, lambda corrected: bool(_read(corrected)))
    raise ValueError(f"{text!r} is not a condition{hint or f' ({_LEGAL})'}")


def _read(text: str) -> list[SimpleCondition]:
    """Return the alternatives in `text`; empty if one of them is not a condition."""
    texts = _OR.split(text)
    read = [next(filter(None, (kind.read(text) for kind in KINDS)), None) for text in texts]
    known = [condition for condition in read if condition is not None]
    return known if len(known) == len(texts) else []


def parse_trigger(value: object) -> Conditions:
    """Parse a text, or a list of texts that must all hold."""
    items = value if isinstance(value, list | tuple) else [value]
    return Conditions(parse_condition(item) for item in items)


Trigger = Annotated[Conditions, BeforeValidator(parse_trigger)]
