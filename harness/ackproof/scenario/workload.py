"""The key `workload` of a scenario: what producers send, and who consumes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from ackproof.scenario.application import Application
from ackproof.scenario.client import Client, ClientLibrary
from ackproof.scenario.consumers import ConsumerGroup, GroupName
from ackproof.scenario.java import JavaProducerSettings, java_version
from ackproof.scenario.producer import ProducerSettings
from ackproof.scenario.transactions import Transactions
from ackproof.scenario.types import Setting, StrictModel
from ackproof_faults.conditions.durations import Duration
from ackproof_spark.record import HEADER_SIZE

#: Beyond these no machine gets: a larger value is a mistake in the file.
_MOST_PER_SECOND, _MOST_RECORDS, _MOST_SECONDS = 100_000_000, 10**12, 366 * 24 * 3600


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


def _known_error(name: str) -> str:
    try:
        from confluent_kafka import KafkaError
    except ModuleNotFoundError:  # without the extra `run`
        return name
    if not isinstance(getattr(KafkaError, name, None), int):
        raise ValueError(
            f"{name!r} is not an error of librdkafka or of Kafka's protocol; an example of one is "
            "INVALID_TXN_STATE"
        )
    return name


#: The name of an error code, as in ledgers.
ErrorName = Annotated[str, AfterValidator(_known_error)]


def _for_client(value: Any, _: ValidatorFunctionWrapHandler, so_far: ValidationInfo) -> Any:
    """Validate settings by the rules of the client that comes before them, if it is legal."""
    if "client" not in so_far.data:
        return value
    version = java_version(so_far.data)
    if version is None:
        return ProducerSettings.model_validate(value)
    return JavaProducerSettings.of(value, version, "producer")


def _settings_schema() -> dict[str, Any]:
    """Return the schema of settings of any client: only librdkafka requires some."""
    schema = ProducerSettings.model_json_schema()
    return {key: value for key, value in schema.items() if key != "required"}


class Sends(StrictModel):
    """What the producers of one topic send."""

    client: Client = Field(
        default=ClientLibrary(),
        description="the client library: librdkafka, java, or one of them with a version; of all "
        "producers and consumers of the workload that name no other",
        examples=["java", {"java": "3.9.1"}, {"librdkafka": "2.3.0"}],
        json_schema_extra={"default": "librdkafka"},
    )
    producers: int = Field(
        default=1, ge=1, le=64, description="number of producers; each is a process"
    )
    rate: Rate = Field(
        default=1000.0,
        gt=0,
        le=_MOST_PER_SECOND,
        allow_inf_nan=False,
        description="sends a second, summed over all producers",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="closed loop: the maximum number of sends of a producer without an outcome (1: "
        "it sends synchronously); rate is then an upper limit",
    )
    size: Size = Field(
        default=SizeRange(min=100, max=100),
        description="bytes of a record's value, or {min, max} for uniformly distributed sizes",
    )
    partition: int | None = Field(
        default=None, ge=0, description="the one partition to send to; by default round robin"
    )
    keys: int | None = Field(
        default=None,
        ge=1,
        le=2000,
        description="number of keys, used in turn; the client's default partitioner places them",
    )
    records: int = Field(
        default=200_000, ge=1, le=_MOST_RECORDS, description="maximum number of sends"
    )
    settings: Annotated[
        ProducerSettings | JavaProducerSettings,
        WrapValidator(_for_client),
        WithJsonSchema(_settings_schema()),
    ] = Field(validate_default=True, default_factory=dict)
    may_stop_for: tuple[ErrorName, ...] = Field(
        default=(),
        description="fatal errors that may end a producer, and with it the workload before a "
        "fault is healed; others make the run inconclusive",
        examples=[["INVALID_TXN_STATE"]],
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers by their client's name."""
        return self.settings.as_client_settings()


class Workload(Sends):
    """Producers and consumers of a run, or the application that sends instead.

    The producers send until every fault has recovered, and then until `tail` more sends are acked.
    They stop earlier at `records` or `seconds`.
    """

    topic: str = Field(description="the topic that the producers write to")
    listener: str = Field(
        default="EXTERNAL",
        description="the listener that they connect to: EXTERNAL or one of cluster.listeners",
    )
    seconds: Duration = Field(
        default=120.0,
        gt=0,
        le=_MOST_SECONDS,
        allow_inf_nan=False,
        description="maximum duration of sending",
    )
    tail: int = Field(
        default=1000, ge=0, description="acked sends to wait for after the last fault has recovered"
    )
    transactions: Transactions | None = Field(
        default=None, description="the transactions in which producers send; none by default"
    )
    consumers: dict[GroupName, ConsumerGroup] = Field(
        default_factory=dict,
        description="consumer groups that read the topic during the faults, by group.id",
    )
    probe: bool = Field(
        default=False,
        description="whether a probe reads and writes each partition all the time, to measure when "
        "it could be read and written",
    )
    beside: dict[str, Sends] = Field(
        default_factory=dict,
        description="other topics that are written to in the same run, each with its own producers",
    )
    application: Application | None = Field(
        default=None,
        description="your application, which sends to the topics of the scenario instead of "
        "ackproof's producers; settings are then what it is known to use",
    )

    @property
    def changed(self) -> set[str]:
        """The keys that differ from their defaults."""
        return {
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.get_default(call_default_factory=True)
        }

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers by their client's name, without transactional.id.

        librdkafka refuses a delivery timeout above the transactions' timeout.
        """
        settings = self.settings.as_client_settings()
        if self.transactions is not None:
            timeout = int(self.transactions.timeout * 1000)
            settings["transaction.timeout.ms"] = timeout
            if self.client.java is None:
                settings["delivery.timeout.ms"] = min(self.settings.delivery_timeout_ms, timeout)
        return settings
