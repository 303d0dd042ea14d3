"""Reads commands that start brokers and create topics: in scripts, and in containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.parts import Source
from ackproof.own_config.tree import Block, Text

_COMMAND = re.compile(
    r"kafka-(?P<tool>topics|configs)(?:\.sh)?\b"
    r"(?P<options>[^;&|\n]*--(?P<action>create|alter)\b[^;&|\n]*)"
)
_START = re.compile(
    r"kafka-server-start(?:\.sh)?\s+(?:-daemon\s+)?[\"']?([^\s\"';&|-][^\s\"';&|]*)"
)


def topics(source: Source, node: object) -> list[Topic]:
    """Return the topics that commands in a service create, and their settings that others change.

    Commands: `kafka-topics --create --topic …`, `kafka-configs --alter --add-config …`.
    """
    found: list[Topic] = []
    for value in texts(node):
        for match in _COMMAND.finditer(value.replace("\\\n", "  ")):
            line = line_in(value, match.start())
            creates = match["tool"] == "topics" and match["action"] == "create"
            read = _created if creates else _altered
            if topic := read(source, match["options"], line):
                found.append(topic)
    return found


def _altered(source: Source, options: str, line: int) -> Topic | None:
    """Return the settings that a command adds to a topic; other changes give a warning."""
    words = _words(options)
    short = re.search(r"--(topic|broker)(-defaults)?(?![\w-])", options)
    kind = words.get("entity-type") or (f"{short[1]}s" if short else "")
    if kind not in ("topics", "brokers"):
        return None
    topic = words.get("topic") or (words.get("entity-name", "") if kind == "topics" else "")
    where = source.at(line)
    added = re.search(r"--add-config[ =]+(?:\"([^\"]+)\"|'([^']+)'|([^\s\"']+))", options)
    applied = added if _NAME.fullmatch(topic) else None
    if applied is None or "delete-config" in words:
        tool = "kafka-configs" if re.search("--(add|delete)-config", options) else "kafka-topics"
        action = "delete-config" if "delete-config" in words else "alter"
        source.warnings.append(f"{where}: not applied: {tool} --{action} of {topic or kind}")
    if applied is None:
        return None
    pairs = applied[1] or applied[2] or applied[3]
    configs = re.findall(r"([\w.]+)=(\[[^\]]*\]|[^,]*)", pairs)
    return Topic(
        name=topic,
        settings=source.settings({key: Text.at(one.strip(), line) for key, one in configs}),
    )


def _created(source: Source, options: str, line: int) -> Topic | None:
    """Return the topic that a command creates; None if the command does not name it."""
    words = _words(options)
    where = source.at(line)
    if not _NAME.fullmatch(words.get("topic", "")):
        return None
    configs = re.findall(r"--config[ =]+[\"']?([\w.]+)=([^\s\"']+)", options)
    replicas = words.get("replication-factor", "-1")
    if not replicas.isdecimal() and replicas != "-1":
        source.warnings.append(f"{where}: replication.factor: not stated: {replicas} fills it in")
    counts = {key: Given(value, where) for key, value in words.items() if value.isdecimal()}
    return Topic(
        name=words["topic"],
        partitions=counts.get("partitions"),
        replication_factor=counts.get("replication-factor"),
        settings=source.settings({key: Text.at(value, line) for key, value in configs}),
    )


_NAME = re.compile(r"[\w.-]+")


def _words(options: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+)[ =]+[\"']?(?!--)([^\s\"']+)", options))


def started(source: Source, command: Sequence[Text]) -> list[Given]:
    """Return the properties files with which `kafka-server-start.sh FILE` starts brokers."""
    return [
        Given(match[1], source.at(line_in(one, match.start())))
        for one in command
        for match in _START.finditer(one)
    ]


def overridden(command: Sequence[Text]) -> dict[str, Text]:
    """Return the settings of `kafka-server-start.sh server.properties --override key=value`."""
    return {
        match[1]: Text.at(match[2], line_in(one, match.start()))
        for one in command
        for match in re.finditer(r"--override[ =]+[\"']?([\w.]+)=([^\s\"']+)", one)
    }


def line_in(value: Text, position: int) -> int:
    return value.line + value.block + value[:position].count("\n")


def texts(node: object) -> Iterator[Text]:
    """Yield the texts below a node; words of a list are joined, but not its blocks of lines."""
    if isinstance(node, Text):
        yield node
    elif isinstance(node, list):
        own = [item for item in node if isinstance(item, Text)]
        yield from (item for item in own if item.block)
        words = [item for item in own if not item.block]
        if words:
            yield Text.at(" ".join(words), words[0].line)
        for item in node:
            if not isinstance(item, Text):
                yield from texts(item)
    elif isinstance(node, Block):
        for key in ("command", "entrypoint", "args"):
            if key in node:
                yield from texts(node[key])
