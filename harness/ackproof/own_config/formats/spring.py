"""Applications with Spring for Apache Kafka, or with Spring Cloud Stream."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ackproof.own_config import applications
from ackproof.own_config.applications import Framework, relaxed, unquoted
from ackproof.own_config.clients import clients
from ackproof.own_config.configuration import Default
from ackproof.own_config.formats.streams import streams
from ackproof.own_config.names import is_producers
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.tree import Text

#: Kafka's names of settings by Spring Boot's, without dashes (KafkaProperties).
_SPRING_NAMES = {
    "transactionidprefix": "transactional.id",
    "fetchmaxwait": "fetch.max.wait.ms",
    "fetchminsize": "fetch.min.bytes",
    "heartbeatinterval": "heartbeat.interval.ms",
    "autocommitinterval": "auto.commit.interval.ms",
    "maxpollinterval": "max.poll.interval.ms",
    **{
        name.replace(".", ""): name  # in another spelling, such as enableAutoCommit
        for name in (
            *("enable.auto.commit", "auto.offset.reset", "isolation.level", "max.poll.records"),
            *("group.id", "client.id", "batch.size", "buffer.memory", "compression.type"),
        )
    },
}
_SPRING = "spring.kafka."


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of Spring for Apache Kafka, or of Spring Cloud Stream's binder."""
    if any(relaxed(key).startswith("spring.cloud.stream.kafka.") for key in pairs):
        return _stream(source, pairs)
    common, of = _boot(pairs)
    if of["streams"]:
        return streams(source, {**common, **of["streams"]}, "spring")
    consumes = bool(of["consumer"] or of["listener"])
    produces = bool(of["producer"]) or any(map(is_producers, common))
    if not (consumes or produces):
        if not common:
            raise RefusalError(
                "a Spring application whose settings of Kafka do not say whether it produces or "
                "consumes (spring.kafka.producer.…, spring.kafka.consumer.…)"
            )
        consumes = produces = True
    channels = {("producer", ""): {**common, **of["producer"]}} if produces else {}
    if consumes:
        listener = {f"{_SPRING}listener.{key}": value for key, value in of["listener"].items()}
        channels["consumer", ""] = {**common, **of["consumer"], **listener}
    return clients(source, channels, framework="Spring", shape="spring")


_SCOPES = ("producer", "consumer", "listener", "streams")


def _boot(pairs: Mapping[str, Text]) -> tuple[dict[str, Text], dict[str, dict[str, Text]]]:
    """Return the settings of Spring Boot: of all clients, and of each kind of them."""
    common: dict[str, Text] = {}
    of: dict[str, dict[str, Text]] = {scope: {} for scope in _SCOPES}
    for key, value in pairs.items():
        if not relaxed(key).startswith(_SPRING):
            continue
        name = unquoted(key)[len(_SPRING) :]
        scope, _, rest = name.partition(".")
        if scope in of and rest:
            of[scope][rest if scope == "listener" else _spring_name(rest)] = value
        elif scope == "properties":
            common[rest] = value
        elif re.sub(r"[-.]", "", name).lower() in ("bootstrapservers", "clientid"):
            common[_spring_name(name.replace(".", "-"))] = value
    return common, of


def _spring_name(name: str) -> str:
    """Return Kafka's name of a setting of Spring Boot."""
    if name.startswith("properties."):
        return name.removeprefix("properties.")
    bare = re.sub(r"[-_.]", "", name).lower()
    if bare in _SPRING_NAMES:
        return _SPRING_NAMES[bare]
    return re.sub(r"(?<=[a-z])([A-Z])", r"-\1", name).lower().replace("-", ".")


_BINDER = re.compile(
    r"spring\.cloud\.stream\.kafka\.(?:binder|default|bindings\.[^.]+)\."
    r"(?P<scope>producer-?properties|consumer-?properties|configuration|producer\.configuration"
    r"|consumer\.configuration|transaction\.producer\.configuration)\.(?P<key>.+)",
    re.IGNORECASE,
)
_OF_BINDER = "spring.cloud.stream.kafka.binder."
_TRANSACTIONAL = f"{_OF_BINDER}transaction.transaction-id-prefix"
_REQUIRED_ACKS = r"spring\.cloud\.stream\.kafka\.binder\.required-?acks"


def _stream(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Read Spring Cloud Stream: its binder has acks=1 unless required-acks says otherwise.

    Settings of Spring Boot outrank required-acks, and those of the binder outrank Spring Boot's
    (KafkaMessageChannelBinder.getProducerFactory). The binder of Kafka Streams has the defaults of
    Kafka Streams.
    """
    common, of_boot = _boot(pairs)
    transactional = next((pairs[key] for key in pairs if relaxed(key) == _TRANSACTIONAL), None)
    required = [one for key, one in pairs.items() if re.fullmatch(_REQUIRED_ACKS, key, re.I)]
    acks = {"acks": required[0]} if required else {}
    of_id = {"transactional.id": transactional} if transactional else {}
    producer = {**acks, **common, **of_boot["producer"], **of_id}
    consumer = {**common, **of_boot["consumer"]}
    for key, value in pairs.items():
        match = _BINDER.fullmatch(key)
        scope = match["scope"].lower() if match else ""
        # A binder with transactions ignores the settings of its bindings' producers.
        ignored = transactional and not relaxed(key).startswith(_OF_BINDER)
        if match and not (scope.startswith("consumer") or ignored):
            producer[match["key"]] = value
        if match and scope.startswith(("consumer", "configuration")):
            consumer[match["key"]] = value
    of_streams = {
        match["key"]: value
        for key, value in pairs.items()
        if (match := _STREAMS_BINDER.fullmatch(key))
    }
    binder = [key for key in map(relaxed, pairs) if key.startswith("spring.cloud.stream.kafka.")]
    if all(key.startswith("spring.cloud.stream.kafka.streams.") for key in binder):
        return streams(source, of_streams, "spring")
    consumer = {key: value for key, value in consumer.items() if not is_producers(key)}
    bindings = [match[1].lower() for key in pairs if (match := _BINDING.match(key))]
    channels: dict[tuple[str, str], dict[str, Text]] = {}
    if producer.keys() - common.keys() or not bindings or any("out" in name for name in bindings):
        channels["producer", ""] = producer
    if consumer.keys() - common.keys() or any(
        "in-" in name or "input" in name for name in bindings
    ):
        channels["consumer", ""] = consumer
    return clients(
        source,
        channels,
        framework="Spring Cloud Stream",
        shape="spring",
        defaults={"acks": "1"},
        origin=Default("Spring Cloud Stream"),
    )


_BINDING = re.compile(r"spring\.cloud\.stream\.bindings\.([^.]+)\.", re.IGNORECASE)
_STREAMS_BINDER = re.compile(
    r"spring\.cloud\.stream\.kafka\.streams\.binder\.(?:configuration\.)?(?P<key>.+)", re.I
)


def _recognises(source: Source, pairs: Mapping[str, Text]) -> bool:
    prefixes = ("spring.kafka.", "spring.cloud.stream.kafka.")
    return any(relaxed(key).startswith(prefixes) for key in pairs)


def read(source: Source) -> Part | None:
    """Read an application of Spring."""
    return applications.read(source, Framework(recognises=_recognises, clients=settings))


_EXAMPLE = """\
spring:
  kafka:
    producer:
      acks: all
"""
FORMAT = Format(
    name="Spring",
    order=130,
    reads="Spring Boot and Spring Cloud Stream, with profiles",
    patterns=("*.yml", "*.yaml", "*.properties"),
    mentions="kafka",
    examples={"application.yml": _EXAMPLE},
    read=read,
)
