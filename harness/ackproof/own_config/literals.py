"""Reads settings in other notations: dict literals of Python, JSON and YAML, Helm's values."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress

from ackproof.own_config import environment
from ackproof.own_config.configuration import Given, Settings, Topic
from ackproof.own_config.containers import embedded
from ackproof.own_config.names import is_client, is_known
from ackproof.own_config.parts import Node, Part, RefusalError, Source
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Block, Text, block, items, mappings, text
from ackproof.scenario.kafka_keys import known


def python(source: Source) -> Part | None:
    """Read the dict literals of Python that have a client's settings."""
    if not re.search(r"""["'][a-z]+(\.[a-z]+)+["']\s*:|["']acks["']\s*:""", source.text):
        return None
    with suppress(ValueError):
        json.loads(source.text)
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    source.warnings.extend(
        [
            f"{source.name}:{node.lineno}: {node.func.id}(…): arguments of kafka-python: not read; "
            "state them in a properties file"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and re.fullmatch(r"(AIO)?Kafka(Producer|Consumer)", node.func.id)
        ]
    )
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    # Dotted names in Python are librdkafka's: other clients have keyword arguments.
    return joined(
        source, "dict of Python", [_literal(source, one) for one in literals], "librdkafka"
    )


def _literal(source: Source, node: ast.Dict) -> dict[str, Text]:
    """Return the settings of a dict; a value that is no literal is a placeholder."""
    pairs: dict[str, Text] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            plain = ast.unparse(value)
            if isinstance(value, ast.Constant):
                literal = value.value
                plain = str(literal).lower() if isinstance(literal, bool) else str(literal)
            elif not re.fullmatch(r"-\d+", plain):
                plain = "${" + re.sub(r"[{}:\n]", " ", plain)[:60] + "}"
            pairs[key.value] = Text.at(plain, value.lineno)
    return pairs


def mapping(source: Source) -> Part | None:
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
    found = [_dotted(pairs) for pairs in plain]
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


def _name(key: str) -> str:
    """Return Kafka's name of `enableIdempotence`, or .NET's `EnableIdempotence`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", ".", key).lower()


def _dotted(pairs: dict[str, Text]) -> dict[str, Text]:
    """Return settings by Kafka's names, if some have names without dots."""
    names = {key: _name(key) for key in pairs}
    if not any(key != names[key] and is_known(names[key]) for key in pairs):
        return pairs
    return {
        names[key]: Text.at(_ENUMERATED.get(value, value.lower()), value.line)
        for key, value in pairs.items()
    }


#: Names of a sub-chart in the values of another chart.
_CHARTS = ("kafka", "cp-kafka", "bitnami-kafka")
#: Where charts have settings by Kafka's names (a mapping), or as properties (a text).
_OVERRIDES = (
    *(
        "configurationOverrides",
        "overrideConfiguration",
        "config",
        "extraConfig",
        "extraConfigYaml",
    ),
    *("configOverrides", "serverProperties", "server.properties", "existingConfig"),
)


def helm(source: Source) -> Part | None:
    """Read the values of a Helm chart of Kafka: Bitnami's, Confluent's and those like them."""
    for root in source.documents:
        if not isinstance(root, Block) or "apiVersion" in root or "services" in root:
            continue
        for chart in (*(block(root, name) for name in _CHARTS), root):
            if part := _chart(source, chart):
                return part
    return None


def _chart(source: Source, chart: Block) -> Part | None:
    common = _overrides(source, chart)
    nodes = []
    for name in ("controller", "broker"):
        pool = block(chart, name)
        count = text(pool, "replicaCount")
        if not pool or count == "0":
            continue
        roles = {"broker"} if text(pool, "controllerOnly") != "true" else set[str]()
        nodes.append(
            Node(
                name=name,
                count=_number(source, count),
                roles=frozenset({name} | roles),
                settings={**common, **_overrides(source, pool)},
            )
        )
    count = text(chart, "replicaCount") or text(chart, "brokers") or text(chart, "replicas")
    if not nodes and common:
        nodes.append(Node(name="brokers", count=_number(source, count), settings=common))
    topics = tuple(_topics(source, chart))
    image = _image(chart)
    if not topics and not any(node.settings for node in nodes) and not (image and nodes):
        return None
    source.warnings.extend(
        f"{source.name}:{value.line}: {key}: brokers do not read it: not used"
        for key, value in chart.items()
        if isinstance(value, Text) and nodes and is_client(_name(key))
    )
    stated = environment.version(image, source) if image else None
    zookeeper = text(chart, "zookeeper", "enabled")
    mode = Given("zookeeper", source.at(zookeeper.line)) if zookeeper == "true" else None
    shape = "Helm values" if nodes else "list of topics"
    return Part(shape=shape, kafka=stated, mode=mode, nodes=tuple(nodes), topics=topics)


def _image(chart: Block) -> Text | None:
    """Return the image of a chart with its tag; None if it is not Kafka's."""
    tag = text(chart, "image", "tag") or text(chart, "imageTag")
    name = text(chart, "image", "repository") or text(chart, "image")
    if not tag:
        return None
    full = f"{name or 'kafka'}:{tag}"
    return Text.at(full, tag.line) if environment.is_kafka(full) else None


def _overrides(source: Source, chart: Block) -> Settings:
    """Return the settings of brokers in a chart's values."""
    pairs: dict[str, Text] = {}
    for key, value in chart.items():
        dotted = _name(key)
        fits = "." in dotted and dotted in known("broker") and dotted != "log.dirs"
        if isinstance(value, Text) and value and fits:
            # Bitnami writes _10000 against Helm's 1e4.
            pairs[dotted] = Text.at(re.sub(r"^_(?=\d)", "", value), value.line)
    settings: dict[str, Given] = {**source.settings(pairs)}
    for place in _OVERRIDES:
        override = chart.get(place)
        if isinstance(override, Block):
            settings |= source.settings(
                {key: one for key, one in override.items() if key in known("broker")}
            )
        elif isinstance(override, Text) and (part := embedded(source, override, "server")):
            for node in part.nodes:
                settings |= node.settings
    variables = {
        str(name): stated
        for entry in items(chart, "extraEnvVars")
        if (name := text(entry, "name")) and (stated := text(entry, "value"))
    }
    if found := environment.broker_settings(variables, "", source):
        settings |= source.settings(found)
    return settings


def _number(source: Source, value: Text | None) -> Given | None:
    return source.given(value) if value and value.isdecimal() else None


def _count(source: Source, value: Text | None) -> Given | None:
    return source.settings({"count": value}).get("count") if value else None


_REPLICAS = ("replicationFactor", "replication_factor", "replicas", "replication")


def _topics(source: Source, node: Block) -> Iterator[Topic]:
    """Yield the topics of lists `topics:` whose entries have partitions or replicas."""
    for parent in mappings(node):
        listed = parent.get("topics")
        entries: list[tuple[str, object]] = []
        if isinstance(listed, list):
            entries = [(str(text(entry, "name") or ""), entry) for entry in listed]
        elif isinstance(listed, Block):
            entries = list(listed.items())
        for name, entry in entries:
            replicas = next((found for key in _REPLICAS if (found := text(entry, key))), None)
            settings = {**block(entry, "config"), **block(entry, "configs")}
            replicas = replicas or settings.pop("replication.factor", None)
            partitions = text(entry, "partitions") or settings.pop("num.partitions", None)
            if not name or not (replicas or partitions):
                continue
            yield Topic(
                name=name,
                partitions=_count(source, partitions),
                replication_factor=_count(source, replicas),
                settings=source.settings(settings),
            )
