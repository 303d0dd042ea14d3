"""What a workload is: who sends what to which topics, and who consumes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from ackproof.scenario.consumers import ConsumerGroup, GroupName
from ackproof.scenario.producer import ProducerSettings
from ackproof.scenario.transactions import Transactions
from ackproof.scenario.types import Setting, StrictModel
from ackproof_faults.conditions.durations import Duration
from ackproof_spark.record import HEADER_SIZE


def _parse_rate(value: object) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?/ ?s", value) if isinstance(value, str) else None
    if match:
        return float(match[1])
    if match is None and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{value!r} is not a rate ('1000/s', or sends a second)")


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
    """Sizes from `min` to `max` bytes, all alike likely."""

    min: int = Field(ge=HEADER_SIZE)
    max: int = Field(le=1_000_000)

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, and max is {self.max}: turn them round")
        return self


def _parse_size(value: object) -> object:
    if isinstance(value, int):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | SizeRange):
        return value
    raise ValueError(f"{value!r} is not a size (bytes, or {{min: …, max: …}})")


#: Of all records, or the range of each.
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


def _known_error(name: str) -> str:
    from confluent_kafka import KafkaError

    if not isinstance(getattr(KafkaError, name, None), int):
        raise ValueError(
            f"{name!r} is no error of librdkafka's or of Kafka's protocol, as INVALID_TXN_STATE is"
        )
    return name


#: An error code by its name, as ledgers have it.
ErrorName = Annotated[str, AfterValidator(_known_error)]


class Sends(StrictModel):
    """What producers of one topic send, and how."""

    producers: int = Field(default=1, ge=1, le=64, description="how many, each a process")
    rate: Rate = Field(
        default=1000.0,
        gt=0,
        allow_inf_nan=False,
        description="sends a second, of all producers together",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="a closed loop: a producer has at most so many sends without an outcome (1: it "
        "sends synchronously), and rate is the most it does",
    )
    size: Size = Field(
        default=SizeRange(min=100, max=100),
        description="bytes of a record's value; or {min, max}, each drawn evenly from there",
    )
    partition: int | None = Field(
        default=None, ge=0, description="the one partition that all is sent to; else round robin"
    )
    keys: int | None = Field(
        default=None,
        ge=1,
        le=2000,
        description="so many keys, in turn, each in its partition by librdkafka's default rule",
    )
    records: int = Field(default=200_000, ge=1, description="at most so many sends in all")
    settings: ProducerSettings
    may_stop_for: tuple[ErrorName, ...] = Field(
        default=(),
        description="fatal errors that may end a producer; any other makes the run inconclusive",
        examples=[["INVALID_TXN_STATE"]],
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers under librdkafka's name."""
        return self.settings.as_client_settings()


class Workload(Sends):
    """Producers and their bounds: they stop by themselves at `records` or `seconds`.

    Within these bounds they go on until every fault has recovered, and then for `tail` more acked
    sends.
    """

    topic: str = Field(description="the topic they write to")
    listener: str = Field(
        default="EXTERNAL",
        description="the brokers' listener they use: EXTERNAL, or one of cluster.listeners",
    )
    seconds: Duration = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="at most so long"
    )
    tail: int = Field(
        default=1000, ge=0, description="acked sends after the last fault has recovered"
    )
    transactions: Transactions | None = Field(
        default=None, description="whether and how sends are put into transactions"
    )
    consumers: dict[GroupName, ConsumerGroup] = Field(
        default_factory=dict,
        description="who consumes the topic while the faults hold: by group.id, its consumers",
    )
    beside: dict[str, Sends] = Field(
        default_factory=dict,
        description="other topics that others write to meanwhile, in their own way: by topic",
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers under librdkafka's name, but their transactional.id."""
        settings = self.settings.as_client_settings()
        if self.transactions is not None:
            timeout = int(self.transactions.timeout * 1000)
            settings["transaction.timeout.ms"] = timeout
            settings["delivery.timeout.ms"] = min(self.settings.delivery_timeout_ms, timeout)
        return settings
