"""Types that the models of a scenario file share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from ackproof import kafka_versions

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
    """Return what is wrong with the first of these that has blanks around it; '' if none has.

    Kafka removes them and librdkafka some of them, so that what is in force is not what was read.
    """
    for text in map(str, texts):
        if text != text.strip():
            return f"{text!r} has blanks around it: remove them"
    return ""


#: Where something stands in a scenario file: keys and list indices, from the top.
YamlPath = tuple[str | int, ...]

#: Where a scenario is wrong, and the message for its author.
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
