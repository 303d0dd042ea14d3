"""The output of `rpk topic describe`: sections SUMMARY, CONFIGS, PARTITIONS."""

from __future__ import annotations

from dataclasses import replace

from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Text


def read(source: Source) -> Part | None:
    """Read `rpk topic describe`: sections SUMMARY, CONFIGS, PARTITIONS."""
    if not any(line.strip() == "SUMMARY" for line in source.lines):
        return None
    found: list[Topic] = []
    section = ""
    for number, line in enumerate(source.lines, start=1):
        words = line.split()
        if len(words) == 1 and words[0].isupper():
            section = words[0]
        elif section == "SUMMARY" and len(words) == 2:
            value = Given(words[1], source.at(number))
            if words[0] == "NAME":
                found.append(Topic(name=words[1]))
            elif found and words[0] == "PARTITIONS":
                found[-1] = replace(found[-1], partitions=value)
            elif found and words[0] == "REPLICAS":
                found[-1] = replace(found[-1], replication_factor=value)
        elif section == "CONFIGS" and found and len(words) >= 2 and "." in words[0]:
            added = source.settings({words[0]: Text.at(words[1], number)})
            found[-1] = replace(found[-1], settings={**found[-1].settings, **added})
    return Part(shape="rpk topic describe", topics=tuple(found)) if found else None


_EXAMPLE = """\
SUMMARY
=======
NAME        orders
PARTITIONS  6
REPLICAS    3
"""
FORMAT = Format(
    name="output of rpk topic describe",
    order=30,
    reads="topics",
    patterns=("*.txt",),
    mentions="partition|replic",
    examples={"rpk.txt": _EXAMPLE},
    read=read,
)
