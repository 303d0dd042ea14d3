"""Applications of Kafka Streams and ksqlDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ackproof.own_config.clients import PREFIXES, REPLICAS, clients, count, under, warn_of_misspelt
from ackproof.own_config.configuration import KAFKA_STREAMS, Default, Given, Topic
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.properties import read_as
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of an application of Kafka Streams or of ksqlDB."""
    if "application.id" in pairs:
        return streams(source, pairs)
    if any(key.startswith("ksql.") for key in pairs):
        return streams(source, {**pairs, **under(pairs, "ksql."), **under(pairs, "ksql.streams.")})
    return None


def streams(source: Source, pairs: Mapping[str, Text], shape: str = "Kafka Streams") -> Part:
    """Return the clients of a Streams application.

    `StreamsConfig`: consumers begin at the earliest offset, and with `exactly_once_v2` producers
    are transactional and consumers read what is committed. Settings of clients without a prefix are
    for all clients (`getClientPropsWithPrefix`); some it never takes from a file.
    """
    warn_of_misspelt(source, pairs, "streams")
    guarantee = pairs.get("processing.guarantee", Text.at("", 0))
    exactly_once = guarantee.startswith("exactly_once")
    consumed = {
        "auto.offset.reset": Text.at("earliest", guarantee.line),
        **({"isolation.level": Text.at("read_committed", guarantee.line)} if exactly_once else {}),
    }
    origin = source.where(guarantee) if exactly_once else Default(KAFKA_STREAMS)
    added = {"acks": "all", "enable.idempotence": "true"} if exactly_once else {}
    if exactly_once:
        added["transactional.id"] = str(pairs.get("application.id") or "of the application")
    topic = Topic(
        name="the internal topics of Kafka Streams",
        replication_factor=count(source, pairs, REPLICAS),
        settings=source.settings(
            {key: one for key, one in under(pairs, "topic.").items() if key in known("topic")}
        ),
        internal=True,
        framework=KAFKA_STREAMS,
    )
    common = {
        key: one for key, one in pairs.items() if key in known("producer") | known("consumer")
    }
    own = {
        "producer": {**common, **under(pairs, "producer.")},
        "consumer": {**common, **under(pairs, "consumer."), **under(pairs, "main.consumer.")},
    }
    fixed = _FIXED_EXACTLY_ONCE if exactly_once else _FIXED
    part = clients(
        source,
        {
            (kind, ""): {key: one for key, one in settings.items() if key not in fixed}
            for kind, settings in own.items()
        },
        shape=shape,
        framework=KAFKA_STREAMS,
        defaults=added,
        origin=origin,
        prefixes=PREFIXES,
        topics=[topic] if "replication.factor" in pairs else [],
    )
    [consumer] = part.consumers
    settings = {key: Given(str(value), origin) for key, value in consumed.items()}
    used = (pairs[key] for key in _USED if key in pairs)
    return replace(
        part,
        consumers=(replace(consumer, settings={**settings, **consumer.settings}),),
        taken=tuple(map(source.given, used)),
    )


#: What decides about clients, and settings of clients that Streams sets whatever a file says.
_USED = ("processing.guarantee",)
_FIXED = ("enable.auto.commit",)
_FIXED_EXACTLY_ONCE = (*_FIXED, "enable.idempotence", "transactional.id", "isolation.level")


def read(source: Source) -> Part | None:
    """Read the properties of an application."""
    return read_as(source, settings)


_EXAMPLE = """\
application.id=orders
bootstrap.servers=kafka:9092
processing.guarantee=exactly_once_v2
"""
FORMAT = Format(
    name="Kafka Streams",
    order=260,
    reads="properties with `application.id`, those of ksqlDB",
    patterns=("*.properties",),
    mentions="bootstrap|replic|guarantee",
    examples={"streams.properties": _EXAMPLE},
    read=read,
    notation="lines",
)
