"""The exporters to Kafka of an OpenTelemetry Collector."""

from __future__ import annotations

import re

from ackproof.own_config import shippers
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Block, block, flat

_NAME = "the OpenTelemetry Collector"


def read(source: Source) -> Part | None:
    """Read the exporters `kafka` and `kafka/NAME`."""
    for root in source.documents:
        exporters = {
            name: flat(exporter) if isinstance(exporter, Block) else {}
            for name, exporter in block(root, "exporters").items()
            if re.match(r"kafka(/|$)", name)
        }
        if exporters:
            return shippers.producers(source, exporters, framework=_NAME)
    return None


_EXAMPLE = """\
exporters:
  kafka:
    brokers: [kafka:9092]
    producer:
      required_acks: 1
"""
FORMAT = Format(
    name="OpenTelemetry Collector",
    order=160,
    reads="exporters `kafka`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"collector.yaml": _EXAMPLE},
    read=read,
    notation="tree",
)
