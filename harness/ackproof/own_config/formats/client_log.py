"""The blocks `ProducerConfig values:` of clients' logs, and `KafkaConfig values:` of brokers'."""

from __future__ import annotations

import re
from collections import Counter

from ackproof.own_config.configuration import Client, Given
from ackproof.own_config.parts import Format, Node, Part, Rank, Source, secret
from ackproof.own_config.tree import Text

_NO_VALUE = ("null", "[hidden]", "[]", "")
_VALUE = re.compile(r"\s+(?P<key>[a-z][a-z0-9._-]*) = (?P<value>.*)")
_APP_INFO = re.compile(r".*Kafka version: (?P<version>\d+\.\d+\.\d+)\b")


def read(source: Source) -> Part | None:
    """Read the blocks `… values:` of ProducerConfig, ConsumerConfig and KafkaConfig."""
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


_EXAMPLE = """\
INFO ProducerConfig values:
    acks = -1
    enable.idempotence = true
INFO Kafka version: 3.9.1
"""
FORMAT = Format(
    name="logs of brokers and clients",
    order=40,
    reads="the blocks `ProducerConfig values:`, `ConsumerConfig values:` and `KafkaConfig "
    "values:`, the version of the client",
    patterns=("*.log",),
    mentions="produc|consum|kafka",
    examples={"app.log": _EXAMPLE},
    read=read,
)
