"""JSON or YAML whose mappings have settings by Kafka's own names, in camelCase, or by .NET's."""

from __future__ import annotations

from ackproof.own_config.names import dotted, is_known
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Text, mappings


def read(source: Source) -> Part | None:
    """Read JSON or YAML whose mappings have settings by Kafka's own names, or by .NET's."""
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
    of_dotnet = any(
        key[:1].isupper()
        for own, dotted in zip(plain, found, strict=True)
        for key in own
        if own != dotted
    )
    shape = "settings in JSON" if source.text.lstrip()[:1] == "{" else "settings in YAML"
    return joined(source, shape, found, "librdkafka" if of_dotnet else "")


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
    reads="settings by Kafka's names at any place, also in camelCase, and `appsettings.json` of "
    ".NET",
    patterns=("*.json", "*.yml", "*.yaml"),
    mentions="acks|insync|replic|bootstrap|idempotence",
    examples={"producer.json": '{"bootstrap.servers": "kafka:9092", "acks": "all"}\n'},
    read=read,
    notation="tree",
)
