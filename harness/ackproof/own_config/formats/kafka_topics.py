"""The output of `kafka-topics --describe`."""

from __future__ import annotations

import re

from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.properties import listed

_TOPIC = re.compile(
    r"\s*Topic:\s*(?P<name>\S+)\s.*?PartitionCount:\s*(?P<partitions>\d+)\s+"
    r"ReplicationFactor:\s*(?P<replicas>\d+)\b(?P<rest>.*)"
)
_PARTITION = re.compile(r"\s*Topic:\s*(?P<name>\S+)\s+Partition:\s*\d+\s+Leader:(?P<rest>.*)")


def read(source: Source) -> Part | None:
    """Read `kafka-topics --describe`."""
    found: dict[str, Topic] = {}
    lines = [
        (number, line) for number, line in enumerate(source.lines, start=1) if "Topic:" in line
    ]
    partitions = [(number, match) for number, line in lines if (match := _PARTITION.match(line))]
    for number, line in lines:
        if match := _TOPIC.match(line):
            where = source.at(number)
            _, _, configs = _joined(source, number, match["rest"]).partition("Configs:")
            found[match["name"]] = Topic(
                name=match["name"],
                partitions=Given(match["partitions"], where),
                replication_factor=Given(match["replicas"], where),
                settings=source.settings(listed(configs, number)),
                # Brokers that have topic ids answer which settings are no defaults.
                in_force="TopicId:" in line,
            )
    if not found and not partitions:
        return None
    if not found:
        raise RefusalError(
            "lines of partitions from kafka-topics --describe: the first line of the topic "
            "(PartitionCount, ReplicationFactor, Configs) is missing"
        )
    below, since = _eligible(source, partitions)
    with_id = next((number for number, line in lines if "TopicId:" in line), None)
    since = since or (Given("2.8", source.at(with_id)) if with_id else None)
    return Part(
        shape="kafka-topics --describe", topics=tuple(found.values()), below=below, since=since
    )


def _joined(source: Source, number: int, rest: str) -> str:
    """Return the rest of a topic's line with the lines into which a terminal wrapped it."""
    for line in source.lines[number:]:
        if not line.strip() or "Topic:" in line:
            break
        rest += line.strip()
    return rest


def _eligible(
    source: Source, partitions: list[tuple[int, re.Match[str]]]
) -> tuple[Given | None, Given | None]:
    """Return bounds of the version by the columns of eligible leader replicas.

    TopicCommand prints N/A if brokers do not know DescribeTopicPartitions, which came with 4.0.
    """
    for number, match in partitions:
        if elr := re.search(r"\bElr:\s*(N/A)?", match["rest"]):
            bound = Given("4.0", source.at(number))
            return (bound, None) if elr[1] else (None, bound)
    return None, None


_EXAMPLE = """\
Topic: orders PartitionCount: 6 ReplicationFactor: 3 Configs: min.insync.replicas=2
"""
FORMAT = Format(
    name="output of kafka-topics --describe",
    order=10,
    reads="topics with their partitions, replicas and settings",
    patterns=("*.txt",),
    mentions="partition",
    examples={"topics.txt": _EXAMPLE},
    read=read,
)
