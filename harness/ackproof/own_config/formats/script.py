"""Commands that start a broker or create topics, in a script or a unit of systemd."""

from __future__ import annotations

import re

from ackproof.own_config.commands import line_in, overridden, started, topics
from ackproof.own_config.configuration import Given
from ackproof.own_config.parts import Format, Node, Part, Source
from ackproof.own_config.tree import Text


def read(source: Source) -> Part | None:
    """Read the commands of a script or a unit of systemd that start a broker or create topics."""
    lines = [line if line.lstrip()[:1] != "#" else "" for line in source.lines]
    command = Text.at("\n".join(lines), 1)
    made = tuple(topics(source, command))
    if "kafka-server-start" not in command:
        return Part(shape="commands", topics=made) if made else None
    version = re.search(r"\bkafka_2\.1[0-3]-(\d+\.\d+\.\d+)", command)
    settings = source.settings(overridden([command]))
    part = Part(
        shape="commands",
        kafka=Given(version[1], source.at(line_in(command, version.start()))) if version else None,
        nodes=(Node(name=source.name, settings=settings),) if settings else (),
        topics=made,
        unread=tuple(started(source, [command])),
    )
    return None if part.empty else part


_EXAMPLE = """\
kafka-topics --bootstrap-server kafka:9092 --create --topic orders --replication-factor 3
"""
FORMAT = Format(
    name="shell scripts",
    order=210,
    reads="`kafka-topics --create`, `kafka-configs --add-config` of topics and "
    "`kafka-server-start --override`, also in units of systemd",
    patterns=("*.sh", "*.service"),
    mentions="kafka",
    examples={"topics.sh": _EXAMPLE},
    read=read,
)
