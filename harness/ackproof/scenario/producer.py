"""The settings of producers: which are required, and which combinations are illegal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from ackproof.scenario.librdkafka import refusal, require_accepted
from ackproof.scenario.types import Setting

#: Client settings that ackproof sets itself.
OWNED_CLIENT_SETTINGS = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "client.id", "transactional.id"}
)

#: Aliases in librdkafka for settings that are validated and predicted under another name.
ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
}


AcksValue = Literal["0", "1", "all"]

_ACKS: Mapping[str, AcksValue] = {"0": "0", "1": "1", "all": "all", "-1": "all"}


def parse_acks(value: object) -> AcksValue:
    if isinstance(value, bool) or str(value) not in _ACKS:
        raise ValueError(f"{value!r} is not a value of acks (0, 1 or all)")
    return _ACKS[str(value)]


Acks = Annotated[
    AcksValue,
    BeforeValidator(parse_acks),
    WithJsonSchema({"enum": [0, 1, -1, "0", "1", "-1", "all"]}),
]


def require_legal(*, idempotence: bool, acks: str, retries: int, max_in_flight: int) -> None:
    """Raise ValueError for settings that clients refuse together.

    KIP-98 and KIP-679; ProducerConfig.postProcessAndValidateIdempotenceConfigs.
    """
    if idempotence and acks != "all":
        raise ValueError(
            f"enable.idempotence: true needs acks: all, not acks: {acks} "
            "(set enable.idempotence: false or acks: all)"
        )
    if idempotence and retries == 0:
        raise ValueError(
            "enable.idempotence: true needs retries above 0 (set enable.idempotence: false, or "
            "remove retries)"
        )
    if idempotence and max_in_flight > 5:
        raise ValueError(
            "enable.idempotence: true needs max.in.flight.requests.per.connection of at most "
            f"5, not {max_in_flight}"
        )


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
    def _combination_is_legal(self) -> Self:
        require_legal(
            idempotence=self.idempotence,
            acks=self.acks,
            retries=self.retries,
            max_in_flight=self.max_in_flight,
        )
        return self

    @model_validator(mode="after")
    def _librdkafka_takes_them(self) -> Self:
        if problem := refusal(self.__pydantic_extra__):
            raise ValueError(problem)
        for key in self.__pydantic_extra__:
            if key in OWNED_CLIENT_SETTINGS:
                raise ValueError(f"{key} is set by ackproof itself: remove it")
            if key in ALIASES:
                raise ValueError(f"{key} is another name of {ALIASES[key]}: use {ALIASES[key]}")
        require_accepted("Producer", self.as_client_settings())
        return self

    def as_client_settings(self) -> dict[str, Setting]:
        """Return every setting under librdkafka's name."""
        return self.model_dump(by_alias=True)
