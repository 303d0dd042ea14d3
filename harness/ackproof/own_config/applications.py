"""Reads the configuration of applications: Spring Boot, Quarkus, Micronaut."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from ackproof.own_config.clients import client, clients, streams, under
from ackproof.own_config.configuration import Client, Default
from ackproof.own_config.names import is_client, is_known, is_producers
from ackproof.own_config.parts import Part, RefusalError, Source, parse
from ackproof.own_config.tree import Block, NotYamlError, Text, block, flat

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


def read(source: Source) -> Part | None:
    """Read an application's properties or YAML, with its profiles."""
    documents = _documents(source)
    shared = _shared(source)
    if not any(_kind(source, pairs) for _, pairs in documents):
        return None
    base: dict[str, Text] = {**shared}
    for profile, pairs in documents:
        base |= {} if profile else pairs
    of_profiles = [("", base)] + [
        (profile, base | pairs) for profile, pairs in documents if profile and _kind(source, pairs)
    ]
    parts = [(name, part) for name, pairs in of_profiles if (part := _one(source, pairs))]
    if not parts:
        return None
    return Part(
        shape=parts[0][1].shape,
        producers=_named([(name, part.producers) for name, part in parts], bool(shared)),
        consumers=_named([(name, part.consumers) for name, part in parts], bool(shared)),
    )


_APPLICATION = re.compile(r"(application|bootstrap|microprofile-config)[\w.-]*$")
#: Settings of a document that name the profile in which it counts.
_ACTIVATES = ("spring.config.activate.on-profile", "spring.profiles")
_PROFILE = re.compile(r"(?:application|bootstrap)-([\w-]+)\.(?:ya?ml|properties)")


def _shared(source: Source) -> dict[str, Text]:
    """Return the settings of `application.yml` for the file of a profile beside it."""
    path = PurePath(source.name)
    if not _PROFILE.fullmatch(path.name):
        return {}
    for name in ("application.yml", "application.yaml", "application.properties"):
        if content := source.beside(name):
            file = str(path.parent / name)
            return {
                key: Text.at(str(value), value.line, file=file)
                for profile, pairs in _documents(Source(name=file, text=content))
                if not profile
                for key, value in pairs.items()
            }
    return {}


def _named(clients: Sequence[tuple[str, tuple[Client, ...]]], shared: bool) -> tuple[Client, ...]:
    """Return clients with the profile in their names, if it changes them.

    shared: whether the clients of no profile are those of another file.
    """
    common = next((own for profile, own in clients if not profile), ())
    changed = (
        replace(one, name=f"{one.name} (profile {profile})")
        for profile, own in clients
        for one in own
        if profile and one not in common
    )
    return (*(() if shared else common), *changed)


def _documents(source: Source) -> list[tuple[str, dict[str, Text]]]:
    """Return the settings of each profile; '' is the name of what all profiles share."""
    named = _PROFILE.fullmatch(PurePath(source.name).name)
    default = named[1] if named else ""
    found: list[tuple[str, dict[str, Text]]] = []
    for pairs in _settings(source):
        profile = next((str(value) for key, value in pairs.items() if key in _ACTIVATES), default)
        quarkus: dict[str, dict[str, Text]] = {}
        for key, value in pairs.items():
            match = re.fullmatch(r"\"?%([\w,-]+)\"?\.(.+)", key)
            of, name = (match[1], match[2]) if match else (profile, key)
            quarkus.setdefault(of, {})[name] = value
        found += quarkus.items()
    return found


def _settings(source: Source) -> list[dict[str, Text]]:
    """Return the settings of each document of YAML, or of each section of properties."""
    stripped = (line.strip() for line in source.lines)
    first = next((line for line in stripped if line and line[0] not in "#!"), "")
    if re.match(r"[\w.%\"\[\]\\*>-]+\s*=", first):
        line, found = 1, []
        for section in re.split(r"(?m)^[#!]---.*$", source.text):
            found.append(parse(section, line))
            line += section.count("\n")
        return found
    try:
        roots = source.documents
    except NotYamlError:
        if re.search(r"(?m)^\s*(spring|kafka|mp|micronaut):", source.text):
            raise
        return []
    return [
        {_unquoted(key): value for key, value in flat(root).items()}
        for root in roots
        if isinstance(root, Block)
    ]


def _unquoted(key: str) -> str:
    """Return a path without quotes and brackets around names that have dots."""
    return re.sub(r"\.?\[\"?([A-Za-z][^\]]*?)\"?\]", r".\1", key).replace('"', "").replace("'", "")


def _kind(source: Source, pairs: Mapping[str, Text]) -> str:
    keys = [_relaxed(key) for key in pairs]
    if any(key.startswith(("spring.kafka.", "spring.cloud.stream.kafka.")) for key in keys):
        return "spring"
    channels = [match["key"] for key in pairs if (match := _CHANNEL.fullmatch(key))]
    # A channel may be another broker's.
    kafkas = "kafka" in source.text.lower() or any(map(is_known, channels))
    if kafkas and any(key.startswith(("mp.messaging.", "quarkus.kafka")) for key in keys):
        return "quarkus"
    if any(re.match(r"kafka\.(producers|consumers)\.", key) for key in keys):
        return "micronaut"
    named = _APPLICATION.match(PurePath(source.name).name)
    settings = [key[len("kafka.") :] for key in keys if named and key.startswith("kafka.")]
    if "bootstrap.servers" in settings or any(map(is_client, settings)):
        return "micronaut" if any(key.startswith("micronaut.") for key in keys) else "quarkus"
    return ""


def _relaxed(key: str) -> str:
    """Return a name of Spring in its canonical form as far as prefixes need it."""
    return key.lower().replace("_", "-")


def _one(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    readers = {"spring": spring, "quarkus": quarkus, "micronaut": micronaut}
    kind = _kind(source, pairs)
    return readers[kind](source, pairs) if kind else None


def spring(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of Spring for Apache Kafka, or of Spring Cloud Stream's binder."""
    if any(_relaxed(key).startswith("spring.cloud.stream.kafka.") for key in pairs):
        return _stream(source, pairs)
    common: dict[str, Text] = {}
    scopes = ("producer", "consumer", "listener", "streams")
    of: dict[str, dict[str, Text]] = {scope: {} for scope in scopes}
    for key, value in pairs.items():
        if not _relaxed(key).startswith(_SPRING):
            continue
        name = _unquoted(key)[len(_SPRING) :]
        scope, _, rest = name.partition(".")
        if scope in of and rest:
            of[scope][rest if scope == "listener" else _spring_name(rest)] = value
        elif scope == "properties":
            common[rest] = value
        elif re.sub(r"[-.]", "", name).lower() in ("bootstrapservers", "clientid"):
            common[_spring_name(name.replace(".", "-"))] = value
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
    r"|consumer\.configuration)\.(?P<key>.+)",
    re.IGNORECASE,
)


def _stream(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Read Spring Cloud Stream: its binder has acks=1 unless required-acks says otherwise.

    The binder of Kafka Streams has the defaults of Kafka Streams.
    """
    producer: dict[str, Text] = {}
    consumer: dict[str, Text] = {}
    for key, value in pairs.items():
        match = _BINDER.fullmatch(key)
        scope = match["scope"].lower() if match else ""
        if match and not scope.startswith("consumer"):
            producer[match["key"]] = value
        if match and not scope.startswith("producer"):
            consumer[match["key"]] = value
        if re.fullmatch(
            r"spring\.cloud\.stream\.kafka\.binder\.required-?acks", key, re.IGNORECASE
        ):
            producer["acks"] = value
    of_streams = {
        match["key"]: value
        for key, value in pairs.items()
        if (match := _STREAMS_BINDER.fullmatch(key))
    }
    binder = [key for key in map(_relaxed, pairs) if key.startswith("spring.cloud.stream.kafka.")]
    if all(key.startswith("spring.cloud.stream.kafka.streams.") for key in binder):
        return streams(source, of_streams, "spring")
    consumer = {key: value for key, value in consumer.items() if not is_producers(key)}
    bindings = [match[1].lower() for key in pairs if (match := _BINDING.match(key))]
    channels: dict[tuple[str, str], dict[str, Text]] = {}
    if producer or not bindings or any("out" in name for name in bindings):
        channels["producer", ""] = producer
    if consumer or any("in-" in name or "input" in name for name in bindings):
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
_CHANNEL = re.compile(
    r"mp\.messaging\.(?P<way>outgoing|incoming)\.(?P<channel>\"[^\"]+\"|[^.]+)\.(?P<key>.+)"
)
_CONNECTOR = "mp.messaging.connector.smallrye-kafka."


def quarkus(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Return the clients of Quarkus: a producer for each outgoing channel, else a consumer.

    SmallRye's connector has acks=1 unless a channel or `kafka.acks` says otherwise.
    """
    common = {**under(pairs, "kafka."), **under(pairs, _CONNECTOR)}
    channels: dict[tuple[str, str], dict[str, Text]] = {}
    for key, value in pairs.items():
        if match := _CHANNEL.fullmatch(key):
            kind = "producer" if match["way"] == "outgoing" else "consumer"
            channels.setdefault((kind, match["channel"].strip('"')), {})[match["key"]] = value
    of_kafka = {
        key: {**common, **own}
        for key, own in channels.items()
        if own.get("connector", "smallrye-kafka") == "smallrye-kafka"
    }
    if not of_kafka:
        if any(key.startswith("quarkus.kafka-streams.") for key in pairs):
            of_streams = {**common, **under(pairs, "kafka-streams.")}
            if name := pairs.get("quarkus.kafka-streams.application-id"):
                of_streams["application.id"] = name
            return streams(source, of_streams, "quarkus")
        return client(source, common, framework="Quarkus", library="java", shape="quarkus")
    return clients(
        source,
        of_kafka,
        framework="Quarkus",
        shape="quarkus",
        defaults={"acks": "1"},
        origin=Default("SmallRye's Kafka connector"),
    )


_MICRONAUT = re.compile(r"kafka\.(?P<kind>producer|consumer)s\.(?P<name>[^.]+)\.(?P<key>.+)")


def micronaut(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of Micronaut; `default` is what the others start with."""
    common: dict[str, Text] = {}
    named: dict[tuple[str, str], dict[str, Text]] = {}
    for key, value in pairs.items():
        if match := _MICRONAUT.fullmatch(key):
            own = named.setdefault((match["kind"], match["name"]), {})
            own[match["key"].replace("-", ".")] = value
        elif key.startswith("kafka."):
            common[key.removeprefix("kafka.").replace("-", ".")] = value
    if not named:
        return client(source, common, framework="Micronaut", library="java", shape="micronaut")
    channels = {
        (kind, "" if name == "default" else name): {
            **common,
            **(named.get((kind, "default"), {}) if name != "default" else {}),
            **own,
        }
        for (kind, name), own in named.items()
    }
    return clients(source, channels, framework="Micronaut", shape="micronaut")


def shipper(source: Source) -> Part | None:
    """Read the outputs to Kafka of an OpenTelemetry Collector, or of a Beat such as Filebeat."""
    for root in source.documents:
        framework = "the OpenTelemetry Collector"
        outputs = {
            name: flat(exporter) if isinstance(exporter, Block) else {}
            for name, exporter in block(root, "exporters").items()
            if re.match(r"kafka(/|$)", name)
        }
        if not outputs and isinstance(root, Block):
            framework = "Beats"
            outputs = {"": own} if (own := under(flat(root), "output.kafka.")) else {}
        acks = {
            name: own.get("producer.required_acks") or own.get("required_acks")
            for name, own in outputs.items()
        }
        if acks:
            return clients(
                source,
                {
                    ("producer", name if len(acks) > 1 else ""): {"acks": stated} if stated else {}
                    for name, stated in acks.items()
                },
                shape="shipper",
                framework=framework,
                defaults={"acks": "1", "enable.idempotence": "false"},
                origin=Default(framework),
            )
    return None
