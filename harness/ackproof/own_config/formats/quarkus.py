"""Applications with Quarkus: channels of SmallRye, or Kafka Streams."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ackproof.own_config import applications
from ackproof.own_config.applications import Framework, names_kafka, relaxed
from ackproof.own_config.clients import client, clients, under
from ackproof.own_config.configuration import Default
from ackproof.own_config.formats import micronaut
from ackproof.own_config.formats.streams import streams
from ackproof.own_config.names import is_client, is_known
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Text

_CHANNEL = re.compile(
    r"mp\.messaging\.(?P<way>outgoing|incoming)\.(?P<channel>\"[^\"]+\"|[^.]+)\.(?P<key>.+)"
)
_CONNECTOR = "mp.messaging.connector.smallrye-kafka."


def _clients(source: Source, pairs: Mapping[str, Text]) -> Part | None:
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
        if channels and not any(map(is_client, common)):
            return None  # all channels are of other software, such as smallrye-in-memory in tests
        return client(source, common, framework="Quarkus", library="java", shape="quarkus")
    return clients(
        source,
        of_kafka,
        framework="Quarkus",
        shape="quarkus",
        defaults={"acks": "1"},
        origin=Default("SmallRye's Kafka connector"),
    )


def _recognises(source: Source, pairs: Mapping[str, Text]) -> bool:
    keys = [relaxed(key) for key in pairs]
    channels = [match["key"] for key in pairs if (match := _CHANNEL.fullmatch(key))]
    # A channel may be another broker's.
    kafkas = "kafka" in source.text.lower() or any(map(is_known, channels))
    if kafkas and any(key.startswith(("mp.messaging.", "quarkus.kafka")) for key in keys):
        return True
    return names_kafka(source, pairs) and not micronaut.recognises(source, pairs)


def read(source: Source) -> Part | None:
    """Read an application of Quarkus."""
    return applications.read(source, Framework(recognises=_recognises, clients=_clients))


_EXAMPLE = """\
kafka.bootstrap.servers=kafka:9092
mp.messaging.outgoing.orders.connector=smallrye-kafka
mp.messaging.outgoing.orders.acks=all
"""
FORMAT = Format(
    name="Quarkus",
    order=140,
    reads="channels of SmallRye, `kafka.…`, Kafka Streams",
    patterns=("*.yml", "*.yaml", "*.properties"),
    mentions="kafka",
    examples={"application.properties": _EXAMPLE},
    read=read,
)
