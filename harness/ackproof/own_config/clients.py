"""Recognises the clients that settings describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ackproof.own_config.configuration import Client, Given, NoFile, Origin, Topic
from ackproof.own_config.names import (
    is_consumers,
    is_librdkafka,
    is_producers,
    is_stated,
    misspelt,
)
from ackproof.own_config.parts import Part, Source
from ackproof.own_config.tree import Text

#: Names of a topic's replication factor, as people write it.
REPLICAS = ("replication.factor", "replication_factor", "replication-factor")


def count(source: Source, pairs: Mapping[str, Text], names: tuple[str, ...]) -> Given | None:
    """Return a count; None if it is not stated, or -1, the brokers' default."""
    values = {name: pairs[name] for name in names if name in pairs and pairs[name] != "-1"}
    return next(iter(source.settings(values).values()), None)


def warn_of_misspelt(source: Source, pairs: Mapping[str, Text], framework: str) -> None:
    """Warn of each name that is almost the name of a setting of Connect or Streams."""
    source.warnings.extend(
        f"{source.name}:{value.line}: {key}: {framework.capitalize()} has no setting of this name; "
        f"did you mean {near!r}?"
        for key, value in pairs.items()
        if not is_stated(key) and (near := misspelt(key, (framework,)))
    )


PREFIXES = {("producer", ""): "producer.", ("consumer", ""): "consumer."}


def client(
    source: Source,
    pairs: Mapping[str, Text],
    *,
    framework: str = "",
    shape: str = "",
    library: str = "",
) -> Part:
    """Return the producer, the consumer, or both that settings describe."""
    library = library or ("librdkafka" if any(map(is_librdkafka, pairs)) else "java")
    consumes = any(map(is_consumers, pairs))
    produces = any(map(is_producers, pairs)) or source.hint == "producer" or not consumes
    if not shape:
        kind = "producer" if not consumes else "client" if produces else "consumer"
        shape = f"{kind} settings of librdkafka" if library != "java" else f"{kind}.properties"
    kinds = ["producer"] * produces + ["consumer"] * consumes
    channels = {(kind, ""): pairs for kind in kinds}
    return clients(source, channels, shape=shape, framework=framework, library=library)


#: The settings of clients, by kind (`producer` or `consumer`) and name; '' is the file's only one.
Channels = Mapping[tuple[str, str], Mapping[str, Text]]


def clients(
    source: Source,
    channels: Channels,
    *,
    shape: str,
    framework: str = "",
    library: str = "java",
    defaults: Mapping[str, str] | None = None,
    origin: Origin = NoFile.UNSTATED,
    prefixes: Mapping[tuple[str, str], str] | None = None,
    topics: Iterable[Topic] = (),
) -> Part:
    """Return the clients of a file, each without settings that only the other kind has.

    defaults: of the framework's producers, from `origin`. prefixes: of the settings' names in the
    file, for each channel.
    """
    made: dict[str, list[Client]] = {"producer": [], "consumer": []}
    for (kind, name), pairs in channels.items():
        produces = kind == "producer"
        own, other = (is_producers, is_consumers) if produces else (is_consumers, is_producers)
        added = {key: Given(one, origin) for key, one in (defaults or {}).items() if produces}
        stated = source.settings(pairs).items()
        settings = {key: given for key, given in stated if own(key) or not other(key)}
        made[kind].append(
            Client(
                name=f"{source.name} ({name})" if name else source.name,
                channel=name,
                library=library,
                settings={**added, **settings},
                framework=framework,
                prefix=(prefixes or {}).get((kind, name), ""),
            )
        )
    return Part(
        shape=shape,
        producers=tuple(made["producer"]),
        consumers=tuple(made["consumer"]),
        topics=tuple(topics),
    )


def under(pairs: Mapping[str, Text], prefix: str) -> dict[str, Text]:
    """Return the settings whose names begin with a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in pairs.items() if key.startswith(prefix)
    }
