"""Commands that start a broker or create topics, in a script or a unit of systemd."""

from __future__ import annotations

import re
from dataclasses import replace

from ackproof.own_config.commands import line_in, overridden, started, topics
from ackproof.own_config.configuration import Given
from ackproof.own_config.parts import Format, Node, Part, RefusalError, Source, together
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import NotYamlError, Text, mappings


def read(source: Source) -> Part | None:
    """Read the commands of a script or a unit of systemd that start a broker or create topics."""
    lines = [line if line.lstrip()[:1] != "#" else "" for line in source.lines]
    command = Text.at("\n".join(lines), 1)
    made = tuple(topics(source, command))
    if "kafka-server-start" not in command:
        sent = _sent(source, command)
        created = [Part(shape="", topics=made)] if made else []
        return together("commands", [*created, *sent]) if made or sent else None
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


_JSON = re.compile(
    r"'(\s*\{[^']*\}\s*)'|<<-?\s*[\"']?(\w+)[\"']?[^\n]*\n(\s*\{.*?)^\s*\2$", re.S | re.M
)


def _sent(source: Source, command: Text) -> list[Part]:
    """Read the JSON that commands such as curl send, for example a connector of Connect."""
    parts = []
    for match in _JSON.finditer(command) if "curl" in command else ():
        group = 1 if match[1] else 3
        before = "\n" * command.count("\n", 0, match.start(group))
        inside = replace(source, text=f"{before}{match[group]}")
        try:
            found = [
                {key: value for key, value in node.items() if isinstance(value, Text)}
                for root in inside.documents
                for node in mappings(root)
            ]
            part = joined(inside, "settings in JSON", found)
        except (NotYamlError, RefusalError) as error:
            where = source.at(line_in(command, match.start()))
            source.warnings.append(f"{where}: JSON in a command is not used: {error}")
            continue
        parts += [part] if part else []
    return parts


_EXAMPLE = """\
kafka-topics --bootstrap-server kafka:9092 --create --topic orders --replication-factor 3
"""
FORMAT = Format(
    name="shell scripts",
    order=210,
    reads="`kafka-topics --create`, `kafka-configs --add-config` of topics and "
    "`kafka-server-start --override`, also in units of systemd; JSON that curl sends",
    patterns=("*.sh", "*.service"),
    mentions="kafka",
    examples={"topics.sh": _EXAMPLE},
    read=read,
)
