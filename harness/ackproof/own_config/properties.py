"""Reads settings `key=value`: Java properties of brokers, topics and clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath

from ackproof.own_config.clients import REPLICAS, client, clients, count, mirror_maker, prefixed
from ackproof.own_config.configuration import Settings, Topic
from ackproof.own_config.names import is_consumers, is_librdkafka, is_producers, only_of
from ackproof.own_config.parts import Node, Part, RefusalError, Source, parse
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known

#: Keys that describe a topic without being its settings, as people write them.
_PARTITIONS = ("partitions", "num.partitions", "partition.count")
_TOPIC_NAMES = ("topic", "topic.name")


def read(source: Source) -> Part | None:
    """Read a file of settings."""
    repeated = _repeated(source)
    pairs = parse(source.text)
    named = re.compile(r"[A-Za-z0-9_][\w.>*-]*")
    odd = {
        key: value
        for key, value in pairs.items()
        if not named.fullmatch(key) or value.endswith("{")
    }
    if 5 * len(odd) > len(pairs):
        return None  # a program or prose, which has a line that looks like a setting
    part = classify(source, {key: value for key, value in pairs.items() if key not in odd})
    repeated += [
        f"{source.name}:{value.line}: {key[:60]!r} is not a setting: not used"
        for key, value in odd.items()
    ]
    source.warnings.extend(repeated if part else ())
    return part


def _repeated(source: Source) -> list[str]:
    seen: dict[str, int] = {}
    warnings = []
    for number, line in enumerate(source.lines, start=1):
        match = re.match(r"\s*([\w.%\"\-]+)\s*=", line)
        if match and (first := seen.setdefault(match[1], number)) != number:
            warnings.append(
                f"{source.name}:{number}: {match[1]} stands twice (first in line {first}): the "
                "last one is taken, as in Java"
            )
    return warnings


def classify(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return what settings say, by the kind of file that has them; None if none is Kafka's."""
    for kind in (mirror_maker, prefixed):
        if part := kind(source, pairs):
            return part
    keys = [key for key in pairs if source.hint or not _VAGUE.fullmatch(key)]
    votes = {scope: sum(map(own, keys)) for scope, own in _VOTES.items()}
    of_clients = votes["producer"] + votes["consumer"] + votes["client"]
    topics = votes["topic"] + votes["shared"]
    read_as: Callable[[Source, Mapping[str, Text]], Part] | None = None
    if votes["broker"] and votes["broker"] >= of_clients:
        read_as = broker
    elif topics and topics >= of_clients and not votes["producer"]:
        read_as = topic if votes["topic"] or source.hint == "topic" else broker
    elif of_clients or (source.hint == "producer" and votes["connection"]):
        read_as = client
    elif votes["connection"]:
        for role in _CLIENTS:
            if role in PurePath(source.name).name.lower():
                return clients(source, {(role, ""): pairs}, shape=f"{role}.properties")
        raise RefusalError(
            "it has only connection settings of a client, and does not say whether it produces or "
            "consumes: name its file of settings such as acks or group.id"
        )
    if read_as:
        scopes, reader = (["shared"], "clients") if read_as is client else (_CLIENTS, "brokers")
        source.warnings.extend(
            f"{source.name}:{pairs[key].line}: {key}: {reader} do not read it: not used"
            for key in keys
            if any(_VOTES[scope](key) for scope in scopes)
        )
    return read_as(source, pairs) if read_as else None


_CLIENTS = ["producer", "consumer"]
#: Names that programs without Kafka have, or brokers and clients: they show neither.
_VAGUE = re.compile(
    r"debug|log_level|retries|partitioner|client\.id|batch\.size|(ssl|sasl)\.[\w.]+|security\.providers"
    r"|listeners|port|host\.name"
)
_VOTES: Mapping[str, Callable[[str], bool]] = {
    "broker": lambda key: key in only_of("broker"),
    "topic": lambda key: key in only_of("topic") or key in (*_PARTITIONS[::2], *REPLICAS),
    "shared": lambda key: key in ("min.insync.replicas", "unclean.leader.election.enable"),
    "producer": lambda key: is_producers(key) and key not in known("broker"),
    "consumer": lambda key: is_consumers(key) and key not in known("broker"),
    "client": is_librdkafka,
    "connection": lambda key: key in known("producer") and key not in known("broker"),
}


def broker(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Return a broker's or a controller's file."""
    settings = source.settings(pairs)
    node = Node(name=source.name, roles=process_roles(settings), settings=settings)
    name = " ".join([source.name, *(one.value for one in node.ids[:1])])
    shape = "server.properties" if "broker" in node.roles else "server.properties of a controller"
    return Part(shape=shape, nodes=(replace(node, name=name),))


def process_roles(settings: Settings) -> frozenset[str]:
    """Return the roles of a node; a broker if the settings do not say."""
    stated = settings["process.roles"].value if "process.roles" in settings else ""
    return frozenset(filter(None, map(str.strip, stated.split(",")))) or frozenset({"broker"})


def topic(source: Source, pairs: Mapping[str, Text]) -> Part:
    """Return a topic's file."""
    beside = (*_PARTITIONS, *REPLICAS, *_TOPIC_NAMES)
    topic = Topic(
        name=str(next((pairs[key] for key in _TOPIC_NAMES if key in pairs), "")),
        partitions=count(source, pairs, _PARTITIONS),
        replication_factor=count(source, pairs, REPLICAS),
        settings=source.settings({key: one for key, one in pairs.items() if key not in beside}),
    )
    return Part(shape="topic settings", topics=(topic,))
