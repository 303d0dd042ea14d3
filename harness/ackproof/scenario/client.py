"""The client library of producers and consumers, and the settings of Java clients by Java's names.

Unlike librdkafka's, Java's settings are optional. Missing settings have the defaults of the client,
which depend on its version.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    RootModel,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)

from ackproof.kafka_versions import DEFAULT_KAFKA, has_idempotence, numbers
from ackproof.scenario.kafka_keys import Scope, ignored, known
from ackproof.scenario.librdkafka import (
    ALIASES,
    KNOWN,
    OWNED_PRODUCER_SETTINGS,
    SET_BY_US,
    AcksValue,
    parse_acks,
    refusal,
    require_legal,
)
from ackproof.scenario.types import KafkaVersion, Setting, StrictModel

#: The Java client's names of librdkafka's settings.
_JAVA_NAMES = {
    **ALIASES,
    "queue.buffering.max.kbytes": "buffer.memory",
    "message.max.bytes": "max.request.size",
    "compression.codec": "compression.type",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}

_OWNED = {
    **OWNED_PRODUCER_SETTINGS,
    **dict.fromkeys(
        (
            *("key.serializer", "value.serializer", "interceptor.classes"),
            *("key.deserializer", "value.deserializer"),
        ),
        SET_BY_US,
    ),
    "group.id": "the name of the consumer group in workload.consumers",
    "enable.auto.commit": "set by the key `commit`",
    "max.poll.records": "set by the key `poll`",
}

#: KIP-679: acks=all and idempotence by default; KAFKA-13598: not yet idempotence in 3.0.0, 3.1.0.
SAFE = (3, 0)
NOT_IDEMPOTENT = ((3, 0, 0), (3, 1, 0))
#: KIP-91: delivery.timeout.ms, and retries without end.
_DELIVERY_TIMEOUT = (2, 1)
#: KIP-1030.
_LINGERING = (4, 0)
_MOST_RETRIES = 2147483647


def _problem(scope: Scope, key: str) -> str:
    """Return why a scenario must not set a property of the Java client; '' if it may."""
    if key in _OWNED:
        return f"{key} is {_OWNED[key]}: remove it"
    if key in known(scope):
        return ""
    if key in KNOWN or key in _JAVA_NAMES:
        same = _JAVA_NAMES.get(key)
        hint = f"use {same}" if same in known(scope) else "remove it"
        return f"{key} is a setting of librdkafka, and the client is Java's: {hint}"
    near = difflib.get_close_matches(key, known(scope), n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"the Java {scope} has no setting {key}{guess}"


class _JavaSettings(RootModel[dict[str, Setting]]):
    """Settings by Java's names, passed on unchanged."""

    model_config = {"frozen": True}
    _version: str = PrivateAttr()
    _scope: Scope = PrivateAttr()

    @classmethod
    def of(cls, given: Any, version: str, scope: Scope) -> Self:
        """Return the settings of clients of this version. Raises ValueError if they are illegal."""
        settings = cls.model_validate(given if given is not None else {})
        if problem := refusal(settings.root):
            raise ValueError(problem)
        for key in settings.root:
            if problem := _problem(scope, key):
                raise ValueError(problem)
        settings._version, settings._scope = version, scope
        settings._require_legal()
        return settings

    @classmethod
    def unchecked(cls, given: Mapping[str, Setting], version: str) -> Self:
        """Return the settings of a file, although its client may refuse them."""
        settings = cls.model_validate(given)
        settings._version = version
        return settings

    def _require_legal(self) -> None:
        """Raise ValueError for values or combinations that the client refuses."""

    def as_client_settings(self) -> dict[str, Setting]:
        return dict(self.root)

    def ignored(self) -> dict[str, str]:
        """Return the settings that clients of this version do not know, and why."""
        reasons = {key: ignored(self._scope, key, self._version) for key in self.root}
        return {key: reason for key, reason in reasons.items() if reason}

    def _number(self, key: str, default: int) -> int:
        value = self.root.get(key, default)
        if not str(value).lstrip("-").isdecimal():
            raise ValueError(f"{key}: {value!r} is not a whole number")
        return int(value)


class JavaProducerSettings(_JavaSettings):
    """A Java producer's settings. The properties are the effective values, defaults included."""

    def _require_legal(self) -> None:
        require_legal(
            idempotence=bool(self._explicit_idempotence),
            acks=self.acks,
            retries=self.retries,
            max_in_flight=self.max_in_flight,
        )
        _ = self.linger_ms, self.delivery_timeout_ms  # they raise ValueError, too

    def _at_least(self, release: tuple[int, ...]) -> bool:
        return numbers(self._version) >= release

    @property
    def _explicit_idempotence(self) -> bool | None:
        value = self.root.get("enable.idempotence")
        if value is None or not has_idempotence(self._version):
            return None
        if str(value).lower() not in ("true", "false"):
            raise ValueError(f"enable.idempotence: {value!r} is not true or false")
        return str(value).lower() == "true"

    @property
    def acks(self) -> AcksValue:
        if "acks" in self.root:
            return parse_acks(self.root["acks"])
        return "all" if self._at_least(SAFE) or self._explicit_idempotence else "1"

    @property
    def idempotence(self) -> bool:
        """Whether it is idempotent; by default since 3.0, unless another setting conflicts."""
        if self._explicit_idempotence is not None:
            return self._explicit_idempotence
        conflict = self.acks != "all" or self.retries == 0 or self.max_in_flight > 5
        by_default = self._at_least(SAFE) and numbers(self._version) not in NOT_IDEMPOTENT
        return by_default and not conflict

    @property
    def retries(self) -> int:
        unlimited = self._at_least(_DELIVERY_TIMEOUT) or self._explicit_idempotence
        return self._number("retries", _MOST_RETRIES if unlimited else 0)

    @property
    def max_in_flight(self) -> int:
        return self._number("max.in.flight.requests.per.connection", 5)

    @property
    def linger_ms(self) -> float:
        return self._number("linger.ms", 5 if self._at_least(_LINGERING) else 0)

    @property
    def delivery_timeout_ms(self) -> int:
        """Milliseconds until a send fails. Before 2.1 batches expire after the request timeout."""
        if self._at_least(_DELIVERY_TIMEOUT):
            return self._number("delivery.timeout.ms", 120_000)
        return self._number("request.timeout.ms", 30_000)


class JavaConsumerSettings(_JavaSettings):
    @property
    def isolation_level(self) -> str:
        return str(self.root.get("isolation.level", "read_uncommitted"))


_NAMES = ("librdkafka", "java")

#: An example in messages.
_LIBRDKAFKA = "2.3.0"

_RELEASE = r"[0-9]+\.[0-9]+\.[0-9]+"


def _parse_librdkafka(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(_RELEASE, value):
        return value
    raise ValueError(
        f"{value!r} is not a version of librdkafka: write a release with all its numbers, such as "
        f"{_LIBRDKAFKA}"
    )


LibrdkafkaVersion = Annotated[
    str,
    BeforeValidator(_parse_librdkafka),
    WithJsonSchema({"type": "string", "pattern": f"^{_RELEASE}$"}),
]


class ClientLibrary(StrictModel):
    """A version of librdkafka or of Kafka's Java client; without one librdkafka as installed."""

    librdkafka: LibrdkafkaVersion | None = Field(
        default=None, description="the version of librdkafka; by default the installed one"
    )
    java: KafkaVersion | None = Field(
        default=None, description="the version of Kafka's Java client; librdkafka if there is none"
    )

    @model_validator(mode="after")
    def _is_one_library(self) -> Self:
        if self.librdkafka is not None and self.java is not None:
            raise ValueError(
                f"librdkafka: {self.librdkafka} and java: {self.java} are two clients: remove one"
            )
        return self


def _parse_client(value: object) -> object:
    if value == "librdkafka":
        return {}
    if value == "java":
        return {"java": DEFAULT_KAFKA}
    if isinstance(value, Mapping | ClientLibrary):
        return value
    raise ValueError(
        f"{value!r} is not a client ({', '.join(_NAMES)}, or one with a version: "
        f"{{librdkafka: {_LIBRDKAFKA}}}, {{java: {DEFAULT_KAFKA}}})"
    )


#: The client library of producers or consumers.
Client = Annotated[
    ClientLibrary,
    BeforeValidator(_parse_client),
    WithJsonSchema({"anyOf": [{"enum": list(_NAMES)}, ClientLibrary.model_json_schema()]}),
]


def with_clients(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's document in which every `client` is set.

    The default of `beside` and `consumers` is `workload.client`. The Java client's default version
    is that of the brokers.
    """
    workload = document.get("workload")
    if not isinstance(workload, Mapping):
        return dict(document)
    kafka = document.get("kafka", DEFAULT_KAFKA)
    complete = _versioned(workload, kafka)
    for part in ("beside", "consumers"):
        members = workload.get(part)
        if isinstance(members, Mapping):
            complete[part] = {
                name: _versioned({"client": complete.get("client", "librdkafka"), **one}, kafka)
                if isinstance(one, Mapping)
                else one
                for name, one in members.items()
            }
    return {**document, "workload": complete}


def _versioned(owner: Mapping[str, Any], kafka: object) -> dict[str, Any]:
    return {**owner, "client": {"java": kafka}} if owner.get("client") == "java" else dict(owner)


def refresh_setting(java: str | None, settings: Mapping[str, object]) -> tuple[str, int]:
    """Return the setting by which a client refreshes its metadata, and its value in milliseconds.

    A client learns of new partitions by a refresh. Errors may cause earlier ones.
    """
    name = "topic.metadata.refresh.interval.ms" if java is None else "metadata.max.age.ms"
    return name, int(str(settings.get(name, 300_000)))


def settings_of_client(
    librdkafka: type[BaseModel], java: type[_JavaSettings], scope: Scope
) -> Callable[[Any, ValidatorFunctionWrapHandler, ValidationInfo], Any]:
    """Return the validator of settings that follow a field `client`.

    If the client is illegal, its settings are not validated.
    """

    def validate(value: Any, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if "client" not in info.data:
            return value
        client: ClientLibrary = info.data["client"]
        if client.java is None:
            return librdkafka.model_validate(value)
        return java.of(value, client.java, scope)

    return validate
