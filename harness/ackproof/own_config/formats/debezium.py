"""Debezium Server, which writes to Kafka without Connect."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.own_config import applications
from ackproof.own_config.applications import Framework
from ackproof.own_config.clients import clients, under
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.properties import OF_DEBEZIUM, read_as
from ackproof.own_config.tree import Block, NotYamlError, Text, block, flat, text

_OF_OPERATOR = "producer."


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the producer of a server."""
    if producer := under(pairs, OF_DEBEZIUM):
        of = ("producer", "")
        return clients(source, {of: producer}, shape="Debezium Server", prefixes={of: OF_DEBEZIUM})
    return None


def read(source: Source) -> Part | None:
    """Read the properties or the YAML of a server, or the resources of Debezium's operator."""
    if source.is_properties:
        return read_as(source, settings)
    framework = Framework(recognises=_recognises, clients=settings)
    return _of_operator(source) or applications.read(source, framework)


def _recognises(source: Source, pairs: Mapping[str, Text]) -> bool:
    return any(key.startswith(OF_DEBEZIUM) for key in pairs)


def _of_operator(source: Source) -> Part | None:
    """Return the producers of resources DebeziumServer, whose names begin after the sink's."""
    try:
        resources = [one for one in source.documents if isinstance(one, Block)]
    except NotYamlError:
        return None
    channels = {
        ("producer", str(text(one, "metadata", "name") or "")): under(
            flat(block(one, "spec", "sink", "config")), _OF_OPERATOR
        )
        for one in resources
        if text(one, "kind") == "DebeziumServer" and text(one, "spec", "sink", "type") == "kafka"
    }
    if not any(channels.values()):
        return None
    prefixes = dict.fromkeys(channels, _OF_OPERATOR)
    return clients(source, channels, shape="Debezium Server", prefixes=prefixes)


_EXAMPLE = """\
debezium.sink.type=kafka
debezium.sink.kafka.producer.acks=1
"""
_RESOURCE = """\
apiVersion: debezium.io/v1alpha1
kind: DebeziumServer
metadata:
  name: orders
spec:
  sink:
    type: kafka
    config:
      producer.acks: all
"""
FORMAT = Format(
    name="Debezium Server",
    order=155,
    reads="`debezium.sink.kafka.producer.…`, resources `DebeziumServer`",
    patterns=("*.properties", "*.yml", "*.yaml"),
    mentions="debezium",
    examples={"debezium.properties": _EXAMPLE, "debezium.yaml": _RESOURCE},
    read=read,
)
