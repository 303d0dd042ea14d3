"""Topics as tools write them in YAML and JSON: entries of a list, or a resource's `spec`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof.own_config.configuration import Topic
from ackproof.own_config.names import dotted
from ackproof.own_config.parts import Source
from ackproof.own_config.tree import Block, Text, block, items, mappings, text
from ackproof.scenario.kafka_keys import known
from ackproof_model.kafka_settings import MIN_INSYNC_REPLICAS, REPLICATION_FACTOR

REPLICAS = ("replicationFactor", "replication_factor", "replicas", "replication")
_PARTITIONS = ("partitions", "partitionCount", "numPartitions", "num_partitions")
_NAMES = ("name", "topic", "topicName", "topic_name")
_CONFIGS = ("config", "configs", "configuration", "settings")
#: Names of settings that are not Kafka's in another spelling.
_ALIASES = {"minimum.in.sync.replicas": MIN_INSYNC_REPLICAS}


def listed(source: Source, node: Block) -> Iterator[Topic]:
    """Yield the topics of lists such as `topics:` whose entries have partitions or replicas.

    A mapping `defaults` beside a list has what its entries do not state.
    """
    for parent in mappings(node):
        shared = block(parent, "defaults") or block(parent, "default")
        for key, value in parent.items():
            if not re.search("topics", key, re.IGNORECASE):
                continue
            entries: list[tuple[str, object]] = []
            if isinstance(value, list):
                entries = [(_first(entry, _NAMES) or "", entry) for entry in value]
            elif isinstance(value, Block):
                entries = list(value.items())
            for name, entry in entries:
                if not (isinstance(entry, Block) and name):
                    continue
                whole = Block(entry.line)
                whole.update({**shared, **entry})
                if found := topic(source, name, whole):
                    yield found


def topic(source: Source, name: str, entry: Block) -> Topic | None:
    """Return the topic that a mapping describes; None without counts and settings of topics."""
    settings = _settings(entry)
    replicas = _first(entry, REPLICAS) or settings.pop(REPLICATION_FACTOR, None)
    replicas = replicas or settings.pop("replication", None)
    partitions = _first(entry, _PARTITIONS) or settings.pop("num.partitions", None)
    partitions = partitions or settings.pop("partitions", None)
    if not (replicas or partitions or settings.keys() & known("topic")):
        return None
    counts = {"partitions": partitions, "replicas": replicas}
    stated = source.settings({key: one for key, one in counts.items() if one and one != "-1"})
    return Topic(
        name=name,
        partitions=stated.get("partitions"),
        replication_factor=stated.get("replicas"),
        settings=source.settings(settings),
    )


def of_list(source: Source, entries: object) -> list[Topic]:
    """Return the topics of a list of mappings that have a name each, with counts or settings."""
    return [
        found
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Block)
        and (name := own_name(entry))
        and (found := topic(source, name, entry))
    ]


def own_name(entry: Block) -> str:
    """Return the name that a topic has in its mapping; '' without one."""
    return str(_first(entry, _NAMES) or "")


def _settings(entry: Block) -> dict[str, Text]:
    """Return a topic's settings: a mapping, or a list of `key` or `name` with `value`."""
    found: dict[str, Text] = {}
    for place in _CONFIGS:
        pairs = {
            str(name): value
            for one in items(entry, place)
            if (name := _first(one, ("key", "name"))) and (value := text(one, "value"))
        }
        stated = {key: joined(one) for key, one in {**block(entry, place), **pairs}.items()}
        found |= {_kafkas(key): one for key, one in stated.items() if isinstance(one, Text)}
    return found


def joined(value: object) -> object:
    """Return a list, such as `cleanup.policy: [compact, delete]`, as Kafka writes it."""
    if isinstance(value, list) and value and all(isinstance(one, Text) for one in value):
        return Text.at(",".join(map(str, value)), value[0].line)
    return value


def _kafkas(key: str) -> str:
    """Return Kafka's name of a topic's setting in camelCase or with underscores."""
    names = (dotted(key), key.replace("_", "."))
    fits = (one for one in (_ALIASES.get(one, one) for one in names) if one in known("topic"))
    return next(fits, key)


def _first(node: object, keys: tuple[str, ...]) -> Text | None:
    return next((found for key in keys if (found := text(node, key))), None)
