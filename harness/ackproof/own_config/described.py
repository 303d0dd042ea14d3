"""Reads what `kafka-configs --describe` and `kafka-topics --describe` print."""

from __future__ import annotations

import re

from ackproof.own_config.settings import Given

_HEADING = re.compile(
    r"(?:All |Dynamic |Default )?configs for (topic|broker|brokers)\b.* are:?\s*(.*)", re.IGNORECASE
)
_TOPIC = re.compile(r"Topic:\s*(\S+).*PartitionCount:\s*(\d+)\s+ReplicationFactor:\s*(\d+)(.*)")
_SETTING = re.compile(r"\s+([A-Za-z0-9._-]+)=(.*?)\s+sensitive=(?:true|false)\b.*")


def is_described(text: str) -> bool:
    """Whether a text is what one of these commands prints."""
    return any(_HEADING.match(line) or _TOPIC.match(line) for line in text.splitlines())


def parse(text: str, name: str) -> dict[str, Given]:
    """Return the settings; `kafka-topics` also gives `partitions` and `replication.factor`."""
    found: dict[str, Given] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        source = f"{name}:{number}"
        if topic := _TOPIC.match(line):
            found["partitions"] = Given(topic[2], source)
            found["replication.factor"] = Given(topic[3], source)
            _, _, configs = topic[4].partition("Configs:")
            found |= _listed(configs, source)
        elif heading := _HEADING.match(line):
            found |= _listed(heading[2], source)  # before 2.5 all settings are on this line
        elif setting := _SETTING.fullmatch(line):
            found[setting[1]] = Given("" if setting[2] == "null" else setting[2], source)
    return found


def _listed(text: str, source: str) -> dict[str, Given]:
    """Return the settings of `a=1,b=delete,compact`: a value may have commas."""
    pairs = re.split(r",(?=[A-Za-z0-9._-]+=)", text.strip())
    return {
        key: Given(value, source)
        for key, equals, value in (pair.partition("=") for pair in pairs)
        if equals
    }
