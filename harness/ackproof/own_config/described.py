"""Reads the output of commands: kafka-topics, kafka-configs, `rpk topic describe`, client logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ackproof.own_config.configuration import Client, Given, Topic
from ackproof.own_config.parts import Node, Part, Rank, RefusalError, Source, secret
from ackproof.own_config.tree import Text

_TOPIC = re.compile(
    r"\s*Topic:\s*(?P<name>\S+)\s.*?PartitionCount:\s*(?P<partitions>\d+)\s+"
    r"ReplicationFactor:\s*(?P<replicas>\d+)\b(?P<rest>.*)"
)
_PARTITION = re.compile(r"\s*Topic:\s*(?P<name>\S+)\s+Partition:\s*\d+\s+Leader:(?P<rest>.*)")


def topics(source: Source) -> Part | None:
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
                settings=source.settings(_listed(configs, number)),
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


def _listed(text: str, number: int) -> dict[str, Text]:
    """Return the settings of `a=1,b=delete,compact`: a value may have commas."""
    pairs = re.split(r",(?=[A-Za-z0-9._-]+=)", text.strip())
    return {
        key.strip(): Text.at(value, number)
        for key, equals, value in (pair.partition("=") for pair in pairs)
        if equals
    }


_HEADING = re.compile(
    r"\s*(?:(?P<kind>All user provided|All|Dynamic|Default|User provided) )?configs for "
    r"(?:the )?(?P<scope>topic|brokers|broker|client|user)s?\b\s*(?P<name>.*?)\s*are:?\s*"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"\s*(?P<key>[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+)=(?P<value>.*?)"
    r"(?:\s+sensitive=(?P<sensitive>true|false)\b\s*(?:synonyms=\{(?P<synonyms>[^}]*)\}?)?.*)?"
)
#: Among the synonyms of a broker's setting.
_DYNAMIC = re.compile(r"DYNAMIC_DEFAULT_BROKER_CONFIG:[^=]*=(.*?)(?:, [A-Z_]+:|$)")
_ALL = "all brokers"


@dataclass
class _Entity:
    """A broker, all brokers, or a topic whose settings a command printed.

    dynamic: those of a broker that are dynamic for all.
    """

    scope: str
    name: str
    in_force: bool
    pairs: dict[str, Text] = field(default_factory=dict)
    dynamic: dict[str, Text] = field(default_factory=dict)


def configs(source: Source) -> Part | None:
    """Read `kafka-configs --describe`, also lines of it without their heading.

    A topic without a setting has those of the brokers.
    """
    entities = _entities(source)
    nodes = tuple(
        Node(name=name, settings=source.settings(pairs), rank=rank)
        for entity in entities
        if entity.scope != "topic"
        for name, pairs, rank in (
            (f"broker {entity.name}" if entity.name else _ALL, entity.pairs, _rank(entity)),
            (_ALL, entity.dynamic, Rank.DYNAMIC_DEFAULT),
        )
        if pairs
    )
    topics = tuple(
        Topic(name=entity.name, settings=source.settings(entity.pairs))
        for entity in entities
        if entity.scope == "topic"
    )
    if nodes or topics:
        return Part(shape="kafka-configs --describe", nodes=nodes, topics=topics)
    if any(entity.scope.startswith("broker") for entity in entities):
        raise RefusalError(
            "the output of kafka-configs --describe without a setting: ask with --all, which also "
            "prints the brokers' static settings and defaults"
        )
    return None


def _rank(entity: _Entity) -> Rank:
    if entity.in_force:
        return Rank.IN_FORCE
    return Rank.DYNAMIC_BROKER if entity.name else Rank.DYNAMIC_DEFAULT


def _entities(source: Source) -> list[_Entity]:
    found: list[_Entity] = []
    for number, line in _unwrapped(source.lines):
        if heading := _HEADING.match(line):
            scope = "broker" if heading["scope"] == "brokers" else heading["scope"].lower()
            name = re.sub(r"^(?:entity )?['\"]?(.*?)['\"]?$", r"\1", heading["name"])
            name = "" if heading["scope"] == "brokers" else name
            in_force = scope == "broker" and (heading["kind"] or "").lower() == "all"
            pairs = _listed(heading["rest"], number)  # before 2.5 all are on this line
            found.append(_Entity(scope, name, in_force, pairs))
        elif (match := _SETTING.fullmatch(line)) and (found or match["sensitive"]):
            if not found:
                found.append(_Entity(_scope(match["synonyms"] or "", source.hint), "", True))
            if match["sensitive"] != "true" and match["value"] not in ("null", ""):
                found[-1].pairs[match["key"]] = Text.at(match["value"], number)
                if of_all := _DYNAMIC.search(match["synonyms"] or ""):
                    found[-1].dynamic[match["key"]] = Text.at(of_all[1], number)
    return found


def _scope(synonyms: str, hint: str) -> str:
    """Return whose setting a line without a heading has."""
    if "DYNAMIC_TOPIC_CONFIG" in synonyms:
        return "topic"
    return "topic" if hint == "topic" and "BROKER" not in synonyms else "broker"


def _unwrapped(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a line that a terminal wrapped is joined.

    A setting ends with its synonyms in braces.
    """
    first, text = 0, ""
    for number, line in enumerate(lines, start=1):
        first = first if text else number
        text += line
        is_open = "sensitive=" in text and "synonyms={" in text and "}" not in text
        cut = re.fullmatch(r"\s+[a-z0-9._-]+=\S*\s*(sensiti?v?e?=?\w*|synonyms=?)?", text)
        following = lines[number] if number < len(lines) else ""
        begins = _HEADING.match(following) or re.match(r"\s+[a-z0-9._-]+=", following)
        goes_on = is_open or (cut and not _SETTING_ALONE.match(following))
        if begins or not following.strip() or not goes_on:
            yield first, text
            text = ""


_SETTING_ALONE = re.compile(r"\s*[a-z0-9-]+(\.[a-z0-9-]+)+=")


def rpk(source: Source) -> Part | None:
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


_NO_VALUE = ("null", "[hidden]", "[]", "")
_VALUE = re.compile(r"\s+(?P<key>[a-z][a-z0-9._-]*) = (?P<value>.*)")
_APP_INFO = re.compile(r".*Kafka version: (?P<version>\d+\.\d+\.\d+)\b")


def client_log(source: Source) -> Part | None:
    """Read the blocks `ProducerConfig values:` of a log, those of brokers (`KafkaConfig`), too."""
    blocks: list[tuple[str, int, dict[str, Text]]] = []
    versions: list[Given] = []
    inside = False
    for number, line in enumerate(source.lines, start=1):
        if heading := re.search(r"\b(Producer|Consumer|Kafka)Config values:\s*$", line):
            blocks.append((heading[1], number, {}))
            inside = True
        elif inside and (match := _VALUE.fullmatch(line)):
            if match["value"] not in _NO_VALUE and not secret(match["key"]):
                value = re.sub(r"^\[(.*)\]$", r"\1", match["value"])
                blocks[-1][2][match["key"]] = Text.at(value, number)
        else:
            inside = inside and not line.strip()
            if match := _APP_INFO.match(line):
                versions.append(Given(match["version"], source.at(number)))
    if not blocks:
        return None
    version = versions[0] if len({given.value for given in versions}) == 1 else None
    kinds = Counter(kind for kind, _, _ in blocks)
    clients: dict[str, list[Client]] = {"Producer": [], "Consumer": []}
    nodes = []
    for kind, number, pairs in blocks:
        settings, name = source.settings(pairs), str(source.at(number))
        if kind == "Kafka":
            nodes.append(Node(name=name, settings=settings, rank=Rank.IN_FORCE))
            continue
        if kinds[kind] == 1:
            name = source.name
        elif "client.id" in settings:
            name = f"{source.name} ({settings['client.id'].value})"
        clients[kind].append(Client(name=name, library="java", settings=settings, version=version))
    return Part(
        shape="a log with the values of a configuration",
        kafka=version if nodes else None,
        nodes=tuple(nodes),
        producers=tuple(clients["Producer"]),
        consumers=tuple(clients["Consumer"]),
    )
