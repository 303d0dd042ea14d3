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

from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario.kafka_clients import CONSUMER_DEFAULTS, JAVA_NAMES, AcksValue, JavaProducer
from ackproof.scenario.kafka_keys import Scope, ignored, known
from ackproof.scenario.librdkafka import KNOWN, OWNED_PRODUCER_SETTINGS, SET_BY_US, refusal
from ackproof.scenario.types import KafkaVersion, Setting, StrictModel
from ackproof_model.kafka_settings import ACKS, ENABLE_AUTO_COMMIT, ISOLATION_LEVEL

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
    ENABLE_AUTO_COMMIT: "set by the key `commit`",
    "max.poll.records": "set by the key `poll`",
}


def _problem(scope: Scope, key: str) -> str:
    """Return why a scenario must not set a property of the Java client; '' if it may."""
    if key in _OWNED:
        return f"{key} is {_OWNED[key]}: remove it"
    if key in known(scope):
        return ""
    if key in KNOWN or key in JAVA_NAMES:
        same = JAVA_NAMES.get(key)
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

    def _require_legal(self) -> None:
        """Raise ValueError for values or combinations that the client refuses."""

    def as_client_settings(self) -> dict[str, Setting]:
        return dict(self.root)

    def ignored(self) -> dict[str, str]:
        """Return the settings that clients of this version do not know, and why."""
        reasons = {key: ignored(self._scope, key, self._version) for key in self.root}
        return {key: reason for key, reason in reasons.items() if reason}


class JavaProducerSettings(_JavaSettings):
    """A Java producer's settings. The properties are the effective values, defaults included."""

    @property
    def _producer(self) -> JavaProducer:
        return JavaProducer(settings=self.root, version=self._version)

    def _require_legal(self) -> None:
        self._producer.require_legal()

    def with_acks(self, acks: AcksValue) -> Self:
        return self.of({**self.root, ACKS: acks}, self._version, self._scope)

    @property
    def acks(self) -> AcksValue:
        return self._producer.acks

    @property
    def idempotence(self) -> bool:
        return self._producer.idempotence

    @property
    def retries(self) -> int:
        return self._producer.retries

    @property
    def max_in_flight(self) -> int:
        return self._producer.max_in_flight

    @property
    def linger_ms(self) -> float:
        return self._producer.linger_ms

    @property
    def delivery_timeout_ms(self) -> int:
        return self._producer.delivery_timeout_ms


class JavaConsumerSettings(_JavaSettings):
    @property
    def isolation_level(self) -> str:
        default = CONSUMER_DEFAULTS["java"][ISOLATION_LEVEL]
        return str(self.root.get(ISOLATION_LEVEL, default))


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

    The default of `beside` and `consumers` is `workload.client`, but not of a program of the user.
    The Java client's default version is that of the brokers.
    """
    workload = document.get("workload")
    if not isinstance(workload, Mapping):
        return dict(document)
    kafka = document.get("kafka", DEFAULT_KAFKA)
    complete = _versioned(workload, kafka)
    default = complete.get("client", "librdkafka")
    for part in ("beside", "consumers"):
        members = workload.get(part)
        if isinstance(members, Mapping):
            complete[part] = {
                name: _versioned({"client": default, **one}, kafka)
                if isinstance(one, Mapping) and not one.get("application")
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
