"""Debezium Server, which writes to Kafka without Connect."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.own_config.clients import clients, under
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.properties import read_as
from ackproof.own_config.tree import Text

_PREFIX = "debezium.sink.kafka.producer."


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the producer of a server."""
    if producer := under(pairs, _PREFIX):
        of = ("producer", "")
        return clients(source, {of: producer}, shape="Debezium Server", prefixes={of: _PREFIX})
    return None


def read(source: Source) -> Part | None:
    """Read the properties of a server."""
    return read_as(source, settings)


_EXAMPLE = """\
debezium.sink.type=kafka
debezium.sink.kafka.producer.acks=1
"""
FORMAT = Format(
    name="Debezium Server",
    order=270,
    reads="`debezium.sink.kafka.producer.…`",
    patterns=("*.properties",),
    mentions="kafka",
    examples={"debezium.properties": _EXAMPLE},
    read=read,
    notation="lines",
)
