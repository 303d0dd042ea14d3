"""Reads clients, brokers and topics from several sets of settings in one file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ackproof.own_config.configuration import Client, Topic
from ackproof.own_config.formats.properties import classify
from ackproof.own_config.hcl import Reader
from ackproof.own_config.parts import Part, RefusalError, Source, together
from ackproof.own_config.tree import Text, mappings
from ackproof.scenario.kafka_keys import known
from ackproof.scenario.librdkafka import KNOWN

_BLOCK = re.compile(r"(?m)^\s*[\w.\"-]+\s*[=:]?\s*\{\s*$")


def has_blocks(source: Source) -> bool:
    """Whether a text has blocks in braces and is not JSON."""
    return bool(_BLOCK.search(source.text)) and source.text.lstrip()[:1] != "{"


def blocks(source: Source, text: str) -> Part | None:
    """Return what blocks of settings in braces describe. text: in HOCON's syntax.

    Raises RefusalError if they are nested too deeply.
    """
    try:
        root = Reader(text).body()
    except RecursionError:
        raise RefusalError("its blocks are nested too deeply to be read") from None
    found = [
        {
            key.rpartition("kafka-clients.")[2]: _unquoted(value)
            for key, value in node.items()
            if isinstance(value, Text)
        }
        for node in mappings(root)
    ]
    return joined(source, "HOCON", found, "java")


def _unquoted(value: Text) -> Text:
    """Return a value without the mark that HCL's reader puts around words outside quotes."""
    bare = value.startswith("${") and value.endswith("}")
    return Text.at(value[2:-1], value.line) if bare else value


def joined(
    source: Source,
    shape: str,
    found: list[dict[str, Text]],
    library: str = "",
    headings: Sequence[str] = (),
) -> Part | None:
    """Return the clients, brokers and topics of several sets of settings.

    headings: of each set; without a heading, a client is named by its first line.
    """
    parts = []
    refusal: RefusalError | None = None
    for at, pairs in enumerate(found):
        if not any("." in key or key in ("acks", "partitions") for key in pairs):
            continue
        try:
            part = classify(source, pairs)
        except RefusalError as error:
            refusal = error
            continue
        if part and all(map(_is_topic, part.topics)):
            line = min(value.line for value in pairs.values())
            parts.append((f" [{headings[at]}]" if headings else f":{line}", part))
    if not parts and refusal:
        raise refusal
    if not parts:
        return None
    one = together(
        shape,
        [part.named(f"{source.name}{place}") if len(parts) > 1 else part for place, part in parts],
    )
    return replace(
        one,
        producers=tuple(replace(each, library=library or _library(each)) for each in one.producers),
        consumers=tuple(replace(each, library=library or each.library) for each in one.consumers),
    )


def _is_topic(topic: Topic) -> bool:
    """Whether it has a setting of topics, or a replication factor with a name or a setting."""
    stated = topic.replication_factor or topic.settings.keys() & known("topic")
    return bool(stated and (topic.name or topic.settings))


def _library(producer: Client) -> str:
    """Return the library of a producer in JSON or YAML; '' if both libraries know all its names.

    It is not needed for consumers, whose defaults hardly differ.
    """
    names = producer.settings.keys() - {"bootstrap.servers", "client.id"}
    of_java = any(key in known("producer") and key not in KNOWN for key in names)
    plain = producer.library == "java" and not producer.framework
    return "" if plain and not of_java and "enable.idempotence" not in names else producer.library
