"""Reads settings under headings: INI, TOML, and HOCON of Akka and other programs in Scala."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ackproof.own_config.configuration import Client, Topic
from ackproof.own_config.names import is_consumers, is_known, is_producers
from ackproof.own_config.parts import Part, RefusalError, Source, together
from ackproof.own_config.properties import classify
from ackproof.own_config.terraform import Reader
from ackproof.own_config.tree import Text, mappings
from ackproof.scenario.kafka_keys import known
from ackproof.scenario.librdkafka import KNOWN

HEADING = re.compile(r"\s*\[\[?\s*([\w .\"':-]+?)\s*\]?\]\s*([#;].*)?")
_PAIR = re.compile(r"\s*([\w.\"'-]+)\s*[=:]\s*(.*)")
#: Sections whose settings the others share.
_COMMON = ("default", "common", "global", "kafka")


def ini(source: Source) -> Part | None:
    """Read INI and TOML: each section is a client, which has the settings of `[default]`, too."""
    sections: dict[str, dict[str, Text]] = {}
    pairs: dict[str, Text] = {}
    for number, line in enumerate(source.lines, start=1):
        if heading := HEADING.fullmatch(line):
            pairs = sections.setdefault(heading[1].lower(), {})
        elif (match := _PAIR.fullmatch(line)) and line.lstrip()[0] not in "#;":
            pairs[_key(match[1])] = Text.at(_value(match[2]), number)
    if not sections:
        return None
    shared = next((name for name in _COMMON if name in sections), "")
    common = sections.get(shared, {})
    others = [name for name in sections if name != shared and any(map(_shows, sections[name]))]
    if shared == "kafka":  # it may be a client itself
        others = [name for name in others if re.search("producer|consumer", name)]
    found = {
        name: pairs if name == shared else {**common, **pairs}
        for name, pairs in sections.items()
        if name != shared or not others
    }
    return joined(source, "settings in sections", [*found.values()], headings=[*found])


def _shows(key: str) -> bool:
    """Whether a setting is one of clients only."""
    return (is_producers(key) or is_consumers(key)) and key not in known("broker")


def _key(written: str) -> str:
    """Return a name without quotes; of `options."message.timeout.ms"` the quoted one."""
    quoted = re.search(r"[\"']([^\"']+)[\"']$", written)
    return quoted[1] if quoted else written.removeprefix("librdkafka_options.")


def _value(written: str) -> str:
    quoted = re.match(r"([\"'])(.*?)\1", written)
    return quoted[2] if quoted else re.sub(r"(\s+#|\s*;).*$", "", written)


_BLOCK = re.compile(r"(?m)^\s*[\w.\"-]+\s*[=:]?\s*\{\s*$")
_OPTIONAL = re.compile(r"(?m)^([ \t]*([\w.\"-]+)\s*[=:]\s*)\$\{\?([\w.]+)\}[ \t]*$")


def hocon(source: Source) -> Part | None:
    """Read HOCON, such as `akka.kafka.producer { kafka-clients { acks = all } }`, and Logstash."""
    if not _BLOCK.search(source.text) or source.text.lstrip()[:1] == "{":
        return None
    for match in _OPTIONAL.finditer(source.text):
        if is_known(match[2].strip('"')):
            line = source.text[: match.start()].count("\n") + 1 + match[1].count("\n")
            source.warnings.append(
                f"{source.name}:{line}: {match[3]} replaces {match[2]} if it is set"
            )
    root = Reader(_OPTIONAL.sub("", source.text).replace("=>", "= ")).body()
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

    headings: of each set; without them its first line names a client.
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
    """Whether it has more than partitions, or a replication factor, of anything."""
    stated = topic.replication_factor or topic.settings.keys() & known("topic")
    return bool(stated and (topic.name or topic.settings))


def _library(producer: Client) -> str:
    """Return the library of a producer in JSON or YAML; '' if both have all its names.

    Only of producers: the defaults of consumers hardly differ.
    """
    names = producer.settings.keys() - {"bootstrap.servers", "client.id"}
    of_java = any(key in known("producer") and key not in KNOWN for key in names)
    plain = producer.library == "java" and not producer.framework
    return "" if plain and not of_java and "enable.idempotence" not in names else producer.library
