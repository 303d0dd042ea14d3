"""The models of librdkafka's settings in a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from ackproof.scenario.kafka_clients import (
    ALIASES,
    CONSUMER_DEFAULTS,
    AcksValue,
    parse_acks,
    require_legal,
)
from ackproof.scenario.librdkafka import (
    OWNED_CONSUMER_SETTINGS,
    OWNED_PRODUCER_SETTINGS,
    refusal,
    require_accepted,
)
from ackproof.scenario.types import Setting
from ackproof_model.kafka_settings import ISOLATION_LEVEL

Acks = Annotated[
    AcksValue,
    BeforeValidator(parse_acks),
    WithJsonSchema({"enum": [0, 1, -1, "0", "1", "-1", "all"]}),
]


class ProducerSettings(BaseModel):
    """Settings of every producer, by its client's names; passed on unchanged.

    With librdkafka `acks` and `enable.idempotence` are required: losses depend on them, and its
    defaults (all, off) differ from the Java client's (all, on). With the Java client what is left
    out has the default of its version.
    """

    model_config = ConfigDict(extra="allow", frozen=True, validate_by_name=False)
    __pydantic_extra__: dict[str, Setting]

    acks: Acks
    idempotence: bool = Field(alias="enable.idempotence")
    retries: int = Field(default=2147483647, ge=0)
    max_in_flight: int = Field(default=5, ge=1, alias="max.in.flight.requests.per.connection")
    linger_ms: float = Field(default=5, ge=0, le=900000, alias="linger.ms")
    delivery_timeout_ms: int = Field(default=120000, ge=1, alias="delivery.timeout.ms")

    @model_validator(mode="after")
    def _is_legal(self) -> Self:
        require_legal(
            idempotence=self.idempotence,
            acks=self.acks,
            retries=self.retries,
            max_in_flight=self.max_in_flight,
        )
        _require_not_owned(self.__pydantic_extra__, OWNED_PRODUCER_SETTINGS)
        for key in self.__pydantic_extra__:
            if key in ALIASES:
                raise ValueError(f"{key} is another name of {ALIASES[key]}: use {ALIASES[key]}")
        require_accepted("Producer", self.as_client_settings())
        return self

    def with_acks(self, acks: AcksValue) -> Self:
        return self.model_copy(update={"acks": acks})

    def as_client_settings(self) -> dict[str, Setting]:
        return self.model_dump(by_alias=True)


class ConsumerSettings(BaseModel):
    """librdkafka's settings for the consumers of a group, passed on unchanged."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Setting]

    @model_validator(mode="after")
    def _is_legal(self) -> Self:
        _require_not_owned(self.__pydantic_extra__, OWNED_CONSUMER_SETTINGS)
        require_accepted("Consumer", {"group.id": "any", **self.__pydantic_extra__})
        return self

    def as_client_settings(self) -> dict[str, Setting]:
        return dict(self.__pydantic_extra__)

    @property
    def isolation_level(self) -> str:
        default = CONSUMER_DEFAULTS["librdkafka"][ISOLATION_LEVEL]
        return str(self.__pydantic_extra__.get(ISOLATION_LEVEL, default))


def _require_not_owned(settings: Mapping[str, Setting], owned: Mapping[str, str]) -> None:
    if problem := refusal(settings):
        raise ValueError(problem)
    for key in settings:
        if key in owned:
            raise ValueError(f"{key} is {owned[key]}: remove it")
