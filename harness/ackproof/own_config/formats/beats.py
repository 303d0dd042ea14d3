"""The output to Kafka of a Beat, such as Filebeat."""

from __future__ import annotations

from ackproof.own_config import shippers
from ackproof.own_config.clients import under
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Block, flat


def read(source: Source) -> Part | None:
    """Read `output.kafka`."""
    for root in source.documents:
        if isinstance(root, Block) and (output := under(flat(root), "output.kafka.")):
            return shippers.producers(source, {"": output}, framework="Beats")
    return None


_EXAMPLE = """\
output.kafka:
  hosts: ["kafka:9092"]
  required_acks: 1
"""
FORMAT = Format(
    name="Beats",
    order=170,
    reads="`output.kafka` of Filebeat and the like",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"filebeat.yml": _EXAMPLE},
    read=read,
    notation="tree",
)
