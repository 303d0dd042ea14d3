"""Properties of brokers, topics, producers and consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath

from ackproof.own_config.clients import REPLICAS, client, clients, count
from ackproof.own_config.configuration import Topic
from ackproof.own_config.formats import connect, debezium, mirror_maker, streams
from ackproof.own_config.names import (
    is_client,
    is_consumers,
    is_librdkafka,
    is_producers,
    only_of,
)
from ackproof.own_config.parts import Format, Node, Part, RefusalError, Source, process_roles
from ackproof.own_config.properties import read_as
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known


def read(source: Source) -> Part | None:
    """Read a file of settings."""
    return read_as(source, classify)


#: Keys that describe a topic without being its settings, as people write them.
_PARTITIONS = ("partitions", "num.partitions", "partition.count")
_TOPIC_NAMES = ("topic", "topic.name")


def classify(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return what settings describe, by the kind of file; None if no setting is Kafka's."""
    for special in (mirror_maker.settings, streams.settings, debezium.settings, connect.settings):
        if part := special(source, pairs):
            return part
    pairs = _without_prefix(pairs)
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


def _without_prefix(pairs: Mapping[str, Text]) -> dict[str, Text]:
    """Return settings with librdkafka's `topic.acks`, as kcat reads it, by their plain names."""
    return {
        plain if key.startswith("topic.") and is_client(plain) else key: value
        for key, value in pairs.items()
        for plain in [key.removeprefix("topic.")]
    }


_CLIENTS = ["producer", "consumer"]
#: Setting names that are no evidence of a broker or a client: other software, or both, use them.
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


_EXAMPLE = """\
process.roles=broker
node.id=1
min.insync.replicas=2
"""
_EXAMPLE = """\
replication.factor=3
min.insync.replicas=2
"""
FORMAT = Format(
    name="properties",
    order=290,
    reads="`server.properties` (KRaft: combined, broker, controller; ZooKeeper), a topic's "
    "settings with `replication.factor`, `producer.properties` and `consumer.properties` "
    "of Java or librdkafka",
    patterns=("*.properties", "*.conf", "*.cfg"),
    mentions="kafka|acks|insync|replic|bootstrap|broker|unclean|retention|partition|idempoten"
    "ce|group|consum|produc|transaction|cleanup|offset|commit|isolation|linger|zookeeper|flush|segment",
    examples={
        "server.properties": _EXAMPLE,
        "producer.properties": "acks=all\n",
        "consumer.properties": "group.id=orders\n",
        "topic.properties": _EXAMPLE,
    },
    read=read,
    notation="lines",
)
