"""Pipelines of Logstash, whose values follow `=>`."""

from __future__ import annotations

from ackproof.own_config import sections
from ackproof.own_config.parts import Format, Part, Source


def read(source: Source) -> Part | None:
    """Read the outputs and inputs `kafka { … }`."""
    if "=>" not in source.text or not sections.has_blocks(source):
        return None
    return sections.blocks(source, source.text.replace("=>", "= "))


_EXAMPLE = """\
output {
  kafka {
    topic_id => "orders"
    acks => "all"
  }
}
"""
FORMAT = Format(
    name="Logstash",
    order=230,
    reads="outputs and inputs `kafka`",
    patterns=("*.conf",),
    mentions="kafka",
    examples={"logstash.conf": _EXAMPLE},
    read=read,
    notation="lines",
)
