"""Types that the models of a scenario file share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from ackproof import kafka_versions
from ackproof_spark.record import HEADER_SIZE

#: The value of a setting of a broker, a topic or a client.
Setting = str | int | float | bool


def _parse_version(value: object) -> str:
    if not isinstance(value, str):
        value = repr(value)  # YAML reads 4.3 without quotes as a number
    kafka_versions.numbers(value)
    return value


#: A release of Kafka, with all its numbers.
KafkaVersion = Annotated[
    str,
    BeforeValidator(_parse_version),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$"}),
]


def setting_text(value: object) -> str:
    """Return the value of a setting in Kafka's form: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def padding(*texts: object) -> str:
    """Return the problem of the first text with leading or trailing blanks; '' without any.

    Kafka removes such blanks, librdkafka some of them: the effective value differs from the file's.
    """
    for text in map(str, texts):
        if text != text.strip():
            return f"{text!r} has blanks around it: remove them"
    return ""


#: A location in a scenario file: keys and list indices, from the top.
YamlPath = tuple[str | int, ...]

#: The location of an error in a scenario, and the message.
Problem = tuple[YamlPath, str]


class StrictModel(BaseModel):
    """A mapping of a scenario file. Unknown keys are errors, and instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def changed(self) -> set[str]:
        """The keys whose values differ from their defaults."""
        return {
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.get_default(call_default_factory=True)
        }


def _parse_share(value: object) -> object:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


Share = Annotated[
    float,
    BeforeValidator(_parse_share),
    Field(ge=0, le=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?%$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]


def _parse_rate(value: object) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?/ ?s", value) if isinstance(value, str) else None
    if match:
        return float(match[1])
    if match is None and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{value!r} is not a rate ('1000/s', or a number of sends a second)")


Rate = Annotated[
    float,
    BeforeValidator(_parse_rate),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?/ ?s$"},
                {"type": "number", "exclusiveMinimum": 0},
            ]
        }
    ),
]


class SizeRange(StrictModel):
    """Sizes from `min` to `max` bytes, uniformly distributed."""

    min: int = Field(ge=HEADER_SIZE)
    max: int = Field(le=1_000_000)

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) must not exceed max ({self.max})")
        return self


def _parse_size(value: object) -> object:
    if isinstance(value, int):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | SizeRange):
        return value
    raise ValueError(f"{value!r} is not a size (bytes, or {{min: …, max: …}})")


#: The size of every record, or the range from which it is drawn.
Size = Annotated[
    SizeRange,
    BeforeValidator(_parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": HEADER_SIZE, "maximum": 1_000_000},
                SizeRange.model_json_schema(),
            ]
        }
    ),
]


#: The transaction timeout and the delivery timeout of what consumers forward, milliseconds.
FORWARDING_TIMEOUT_MS = 10_000


class Commit(StrEnum):
    """When a consumer commits the offsets of the records that it polled.

    `AUTO`: librdkafka commits every `auto.commit.interval.ms`, as soon as it has handed the records
    to the application. `BEFORE`, `AFTER`: synchronously, before or after processing the records of
    a poll. `TRANSACTION`: together with the records that it forwards, one transaction a poll.
    `NEVER`: not at all.
    """

    AUTO = "auto"
    BEFORE = "before"
    AFTER = "after"
    TRANSACTION = "transaction"
    NEVER = "never"
