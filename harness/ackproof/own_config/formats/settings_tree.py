"""JSON or YAML whose mappings have settings by Kafka's own names, in camelCase, or by .NET's."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.own_config.listed_topics import REPLICAS, of_list
from ackproof.own_config.names import dotted, is_consumers, is_known, is_producers
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.properties import settings_in
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Block, Text, block, mappings, text


def read(source: Source) -> Part | None:
    """Read JSON or YAML whose mappings have settings by Kafka's own names, or by .NET's."""
    if topics := [topic for root in source.documents for topic in of_list(source, root)]:
        return Part(shape="list of topics", topics=tuple(topics))
    plain = [
        {key: value for key, value in node.items() if isinstance(value, Text)}
        for root in source.documents
        for node in mappings(root)
    ]
    if foreign := [key for pairs in plain for key in pairs if key in _KAFKAJS]:
        raise RefusalError(
            f"settings of KafkaJS ({', '.join(foreign)}): they are not read. Name acks and the "
            "like in a properties file"
        )
    found = [_by_kafkas_names(pairs) for pairs in plain]
    found_in_texts = [
        pairs
        for root in source.documents
        if "AWSTemplateFormatVersion" not in block(root) and "Resources" not in block(root)
        for node in mappings(root)
        for pairs in _in_texts(node)
    ]
    of_dotnet = any(
        key[:1].isupper()
        for own, dotted in zip(plain, found, strict=True)
        for key in own
        if own != dotted
    )
    shape = "settings in JSON" if source.text.lstrip()[:1] == "{" else "settings in YAML"
    return joined(source, shape, found + found_in_texts, "librdkafka" if of_dotnet else "")


def _in_texts(node: Block) -> Iterator[dict[str, Text]]:
    """Yield the settings in texts such as `producerConfig: |`, with those of all of them.

    A text about topics has the replication factor that stands beside it.
    """
    texts = {key: settings_in(one) for key, one in node.items() if isinstance(one, Text)}
    common = {
        name: value
        for key, pairs in texts.items()
        if "common" in key.lower()
        for name, value in pairs.items()
    }
    replicas = next((one for key in REPLICAS if (one := text(node, key))), None)
    for key, pairs in texts.items():
        if pairs and "topic" in key.lower() and replicas:
            yield {"replication.factor": replicas, **pairs}
        elif pairs and "common" not in key.lower():
            others = next((of for kind, of in _OTHERS.items() if kind in key.lower()), None)
            shared = {name: one for name, one in common.items() if others and not others(name)}
            yield {**shared, **pairs}


#: By a kind of clients: whether only the other kind has a setting.
_OTHERS = {"producer": is_consumers, "consumer": is_producers}


#: Names that only KafkaJS has.
_KAFKAJS = ("idempotent", "maxInFlightRequests", "autoCommit", "fromBeginning")
#: Values of enumerations of Confluent.Kafka for .NET.
_ENUMERATED = {"Leader": "1", "None": "0", "ReadCommitted": "read_committed"}


def _by_kafkas_names(pairs: dict[str, Text]) -> dict[str, Text]:
    """Return settings by Kafka's names, if some have names without dots."""
    names = {key: dotted(key) for key in pairs}
    if not any(key != names[key] and is_known(names[key]) for key in pairs):
        return pairs
    return {
        names[key]: Text.at(_ENUMERATED.get(value, value.lower()), value.line)
        for key, value in pairs.items()
    }


FORMAT = Format(
    name="JSON and YAML",
    order=200,
    reads="settings by Kafka's names at any place, also in camelCase or as a text of properties, "
    "and `appsettings.json` of .NET",
    patterns=("*.json", "*.yml", "*.yaml"),
    mentions="acks|insync|replic|bootstrap|idempotence",
    examples={"producer.json": '{"bootstrap.servers": "kafka:9092", "acks": "all"}\n'},
    read=read,
    notation="tree",
)
