"""HOCON, such as `akka.kafka.producer { kafka-clients { acks = all } }`."""

from __future__ import annotations

import re

from ackproof.own_config import sections
from ackproof.own_config.names import is_known
from ackproof.own_config.parts import Format, Part, Source

_OPTIONAL = re.compile(r"(?m)^([ \t]*([\w.\"-]+)\s*[=:]\s*)\$\{\?([\w.]+)\}[ \t]*$")


def read(source: Source) -> Part | None:
    """Read blocks of settings; a value `${?NAME}` is used only if NAME is set."""
    if not sections.has_blocks(source):
        return None
    for match in _OPTIONAL.finditer(source.text):
        if is_known(match[2].strip('"')):
            line = source.text[: match.start()].count("\n") + 1 + match[1].count("\n")
            source.warnings.append(
                f"{source.name}:{line}: {match[3]} replaces {match[2]} if it is set"
            )
    return sections.blocks(source, _OPTIONAL.sub("", source.text))


_EXAMPLE = """\
akka.kafka.producer {
  kafka-clients {
    bootstrap.servers = "kafka:9092"
    acks = all
  }
}
"""
FORMAT = Format(
    name="HOCON",
    order=240,
    reads="blocks `kafka-clients` of Akka, Pekko and other programs in Scala",
    patterns=("*.conf",),
    mentions="kafka|acks",
    examples={"application.conf": _EXAMPLE},
    read=read,
    notation="lines",
)
