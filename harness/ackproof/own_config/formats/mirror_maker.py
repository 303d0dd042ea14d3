"""MirrorMaker 2: `clusters = A, B`, `A->B.enabled`, `B.producer.acks`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ackproof.own_config.clients import PREFIXES, client, clients, count
from ackproof.own_config.configuration import Topic
from ackproof.own_config.formats.connect import (
    CONNECT,
    MIRRORED,
    ORIGIN,
    TRANSACTIONAL,
    about_topics,
    internal_topics,
    internal_writers,
    support_of,
)
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.properties import read_as
from ackproof.own_config.tree import Text

_MIRRORED = re.compile(
    r"(?:(?P<cluster>[\w.\-]+?)(?:->[\w.\-]+?)?\.)?(?P<kind>producer|consumer)\.(?P<key>.+)"
)


def settings(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Read MirrorMaker 2: `clusters = A, B`, `A->B.enabled`, `B.producer.acks`."""
    names = [name.strip() for name in pairs.get("clusters", Text.at("", 0)).split(",")]
    listed = any(f"{name}.bootstrap.servers" in pairs for name in names)
    if not listed and not any(re.match(r"[\w.-]+->[\w.-]+\.\w", key) for key in pairs):
        return None
    found: dict[tuple[str, str], dict[str, Text]] = {}
    prefixes = dict(PREFIXES)
    for key, value in pairs.items():
        if match := _MIRRORED.fullmatch(key):
            of = match["kind"], match["cluster"] or ""
            found.setdefault(of, {})[match["key"]] = value
            prefixes.setdefault(of, key[: match.start("key")])
    found.setdefault(("producer", ""), {})
    replicas = count(source, pairs, ("replication.factor",))
    topic = Topic(name=MIRRORED, replication_factor=replicas)
    internal = internal_topics(source, pairs, "MirrorMaker 2")
    support = support_of(source, pairs)
    exactly_once = support is not None and support.value.lower() == "enabled"
    part = clients(
        source,
        {
            (kind, cluster): {**found.get((kind, ""), {}), **own}
            for (kind, cluster), own in found.items()
            if cluster or not any(other for of, other in found if of == kind)
        },
        shape="MirrorMaker 2",
        framework="MirrorMaker 2",
        defaults=CONNECT | TRANSACTIONAL if exactly_once else CONNECT,
        origin=ORIGIN,
        prefixes=prefixes,
        topics=[*([topic] if replicas else []), *internal.values()],
    )
    writers = internal_writers(source, {}, internal)
    if "offset-syncs.topic" in internal:  # MirrorSourceConfig.sourceProducerConfig
        written = internal["offset-syncs.topic"].name
        [syncs] = client(source, found.get(("producer", ""), {})).producers
        name, prefix = f"{source.name} ({written})", PREFIXES["producer", ""]
        writers.append(replace(syncs, name=name, writes=written, prefix=prefix))
    producers = (*part.producers, *writers)
    return replace(
        part,
        producers=tuple(replace(one, exactly_once=support) for one in producers),
        taken=about_topics(source, pairs),
    )


def read(source: Source) -> Part | None:
    """Read the properties of MirrorMaker 2."""
    return read_as(source, settings)


_EXAMPLE = """\
clusters=A,B
A.bootstrap.servers=a:9092
B.bootstrap.servers=b:9092
A->B.enabled=true
B.producer.acks=all
"""
FORMAT = Format(
    name="MirrorMaker 2",
    order=250,
    reads="its properties, with the producers of its own topics",
    patterns=("*.properties",),
    mentions="producer|replic",
    examples={"mm2.properties": _EXAMPLE},
    read=read,
    notation="lines",
)
