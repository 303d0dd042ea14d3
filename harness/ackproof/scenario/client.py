"""Which client library producers and consumers use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario.types import KafkaVersion, StrictModel

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
    """Return a scenario's document in which `workload.client` holds for all its clients.

    Topics beside the workload's and consumer groups may name another one. The Java client without
    a version is as old as the brokers.
    """
    workload = document.get("workload")
    if not isinstance(workload, Mapping) or "client" not in _all_keys(workload):
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


def _all_keys(workload: Mapping[str, Any]) -> set[str]:
    parts = [workload.get(part) for part in ("beside", "consumers")]
    members = [one for part in parts if isinstance(part, Mapping) for one in part.values()]
    return {*workload, *(key for one in members if isinstance(one, Mapping) for key in one)}


def _versioned(owner: Mapping[str, Any], kafka: object) -> dict[str, Any]:
    return {**owner, "client": {"java": kafka}} if owner.get("client") == "java" else dict(owner)
