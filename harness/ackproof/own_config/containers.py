"""Reads containers: brokers, and applications with clients."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ackproof.own_config import environment
from ackproof.own_config.commands import overridden, started, texts
from ackproof.own_config.configuration import Count, FileLine, Given, Topic
from ackproof.own_config.formats import spring
from ackproof.own_config.formats.properties import classify
from ackproof.own_config.parts import Mounts, Part, RefusalError, Source, together
from ackproof.own_config.properties import settings_in
from ackproof.own_config.tree import Block, Text, block, items, text

#: Other software with Kafka's protocol.
_OTHERS = re.compile(r"redpanda(?!data/(console|connect))|warpstream|automq|bufstream")


@dataclass
class Containers:
    """The nodes, topics and clients that the containers of one file describe."""

    source: Source
    parts: list[Part] = field(default_factory=list)
    versions: list[Given] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    unread: list[Given] = field(default_factory=list)
    has_properties: bool = False

    def container(
        self,
        name: str,
        image: Text | None,
        variables: Mapping[str, Text],
        stated: Block,
        *,
        count: Count | None,
        mounts: Mounts | None = None,
    ) -> None:
        """Add a container: a node, or an application with clients."""
        command = list(texts([stated.get(key) for key in ("command", "entrypoint", "args")]))
        if image and _OTHERS.search(image):
            other = f"{image} is not Kafka, and its rules differ"
            self.others.append(other)
            self.source.warnings.append(f"{self.source.name}:{image.line}: {other}: not used")
            return
        settings = environment.broker_settings(variables, str(image or ""), self.source)
        starts = any("kafka-server-start" in one for one in command)
        bare = image is not None and environment.is_kafka(image) and (starts or not command)
        if settings or bare:
            settings = {**(settings or {}), **(overridden(command) if starts else {})}
            version = environment.version(image, self.source) if image else None
            self.versions += [version] if version else []
            named = [*started(self.source, command), *_outside(self.source, stated)]
            files = _IMAGES_READ if settings else _CONFIG
            unread = named or _mounted(self.source, stated, files)
            self.unread += unread
            if mounts and not unread:
                mounts = replace(mounts, log_dirs=environment.log_dirs(str(image or "")))
                if not {"log.dirs", "log.dir"} & settings.keys():
                    held = [one for one in mounts.mounts if not _shadowed(one.path, mounts)]
                    mounts = replace(mounts, mounts=tuple(held))
            node = environment.node(
                name,
                settings,
                self.source,
                image=str(image or ""),
                count=count,
                of_image=environment.stock(str(image or ""), variables)
                if not (unread or starts)
                else None,
                mounts=mounts,
            )
            self.parts.append(Part(shape="", nodes=(node,)))
        clients = application(variables, self.source, name)
        connect = image if image and "kafka-connect" in image else None
        if clients and connect and (version := environment.version(connect, self.source)):
            release = Given(version.value + ".0" * (2 - version.value.count(".")), version.source)
            of_image = [replace(one, version=release) for one in clients.producers]
            clients = replace(clients, producers=tuple(of_image))
        self.add(clients)
        if "KAFKA_CREATE_TOPICS" in variables:
            self.topics(_created(variables["KAFKA_CREATE_TOPICS"], self.source))

    def topics(self, topics: Sequence[Topic]) -> None:
        self.parts.append(Part(shape="", topics=tuple(topics)))

    def add(self, part: Part | None) -> None:
        if part:
            self.parts.append(part)
            self.has_properties |= bool(part.nodes)
            self.versions += [part.kafka] if part.kafka else []

    def part(self, shape: str) -> Part:
        different = list(dict.fromkeys(given.value for given in self.versions))
        if len(different) > 1:
            places = ", ".join(f"{given.value} ({given.source})" for given in self.versions)
            self.source.warnings.append(f"images of several versions of Kafka: {places}")
        return replace(
            together(shape, [*_told_apart(self.parts)]),
            kafka=min(
                self.versions,
                key=lambda given: [*map(int, re.findall(r"\d+", given.value))],
                default=None,
            ),
            unread=() if self.has_properties else tuple(self.unread),
        )


def _told_apart(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield parts; clients of several parts with one name have their first line beside it."""
    of_part = [{one.name for one in (*part.producers, *part.consumers)} for part in parts]
    of_all = Counter(chain.from_iterable(of_part))
    for part, names in zip(parts, of_part, strict=True):
        line = _first_line(part)
        if line is None or all(of_all[name] == 1 for name in names):
            yield part
            continue
        yield replace(
            part,
            producers=tuple(replace(one, name=f"{one.name}:{line}") for one in part.producers),
            consumers=tuple(replace(one, name=f"{one.name}:{line}") for one in part.consumers),
        )


def _first_line(part: Part) -> int | None:
    """Return the first line with a setting of a client."""
    lines = [
        given.source.line
        for one in (*part.producers, *part.consumers)
        for given in one.settings.values()
        if isinstance(given.source, FileLine)
    ]
    return min(lines, default=None)


def _shadowed(path: str, mounts: Mounts) -> bool:
    """Whether a mount is above the folder of the logs, which images declare as a volume of its own.

    The engine then mounts an anonymous volume inside, so that the logs are not in the folder above.
    """
    above = path.rstrip("/") + "/"
    return any(
        folder in environment.VOLUMES and folder.startswith(above) for folder in mounts.log_dirs
    )


def env_files(container: Block) -> list[Text]:
    files = container.get("env_file")
    entries = files if isinstance(files, list) else [files]
    named = [one if isinstance(one, Text) else text(one, "path") for one in entries]
    return [one for one in named if one]


def _created(value: Text, source: Source) -> list[Topic]:
    """Return the topics of KAFKA_CREATE_TOPICS: `orders:3:2:compact,…` (partitions, replicas)."""
    topics = []
    where = source.at(value.line)
    for entry in filter(None, map(str.strip, re.split(r"[,\n]", value))):
        name, *rest = entry.split(":")
        counts = [Given(number, where) for number in rest[:2] if number.isdecimal()]
        if len(counts) == 2:
            policy = {"cleanup.policy": Given(rest[2], where)} if len(rest) > 2 else {}
            topics.append(
                Topic(
                    name=name,
                    partitions=counts[0],
                    replication_factor=counts[1],
                    settings=policy,
                )
            )
    return topics


def _outside(source: Source, container: Block) -> list[Given]:
    """Return the env files, ConfigMaps and Secrets that a container names and that are missing."""
    maps = [
        text(entry, kind, "name")
        for entry in items(container, "envFrom")
        for kind in ("configMapRef", "secretRef")
    ]
    missing = [one for one in env_files(container) if source.beside(str(one)) is None]
    return [source.given(one) for one in (*missing, *filter(None, maps))]


_CONFIG = re.compile(r"server\.properties|/config\b|/(etc|opt)/kafka|/kraft\b")
#: Where images read a file beside variables: Apache's adds these, Bitnami's passes them over.
_IMAGES_READ = re.compile(r"/mnt/shared/config\b|/bitnami/kafka/config\b")


def _mounted(source: Source, container: Block, files: re.Pattern[str]) -> list[Given]:
    """Return the mounted files and folders that may have the settings of a broker."""
    entries = [*items(container, "volumes"), *items(container, "volumeMounts")]
    places = [
        one if isinstance(one, Text) else text(one, "target") or text(one, "mountPath")
        for one in entries
    ]
    # The path in the container is the target of `SOURCE:TARGET:ro`, or a target alone.
    targets = [(one, re.sub(r":[\w,]+$", "", one).rpartition(":")[2]) for one in places if one]
    return [source.given(one) for one, target in targets if files.search(target)]


def embedded(source: Source, value: Text, name: str = "") -> Part | None:
    """Read a text of settings inside another file, such as `server.properties: |`."""
    pairs = settings_in(value)
    if not pairs:
        return None
    return classify(replace(source, hint="broker" if "server" in name else ""), pairs)


def application(variables: Mapping[str, Text], source: Source, name: str) -> Part | None:
    """Return the clients that an application's variables describe: Connect's image, Spring Boot."""
    prefixes = ("CONNECT_", "KSQL_KSQL_", "SPRING_KAFKA_")
    prefix = next((one for one in prefixes if any(key.startswith(one) for key in variables)), "")
    if prefix == "SPRING_KAFKA_":
        read_as: Callable[[Source, Mapping[str, Text]], Part | None] = spring.settings
        settings = {
            key.lower().replace("_", "."): value
            for key, value in variables.items()
            if key.startswith("SPRING_")
        }
    elif prefix:
        read_as = classify
        settings = {
            environment.key_of(key.replace(prefix.split("_")[0], "KAFKA", 1)): value
            for key, value in variables.items()
            if key.startswith(prefix)
        }
    else:
        return None
    try:
        part = read_as(source, settings)
    except RefusalError:
        return None
    return part.named(f"{source.name} ({name})" if name else source.name) if part else None


def containers(node: object, depth: int = 0) -> Iterator[Block]:
    """Yield every mapping with a list `env`, or `environment`, of names and values."""
    if depth > 30:
        return
    if isinstance(node, Block):
        if named_values(node) or isinstance(node.get("image"), Text):
            yield node
        for key, value in node.items():
            if key not in ("env", "environment"):
                yield from containers(value, depth + 1)
    elif isinstance(node, list):
        for item in node:
            yield from containers(item, depth + 1)


def named_values(container: Block, maps: Mapping[str, Block] | None = None) -> dict[str, Text]:
    """Return the variables of `env: [{name: …, value: …}]`.

    maps: the data of ConfigMaps and Secrets in the file, by name. A value that another file has
    becomes a placeholder.
    """
    return {
        str(name): value
        for key in ("env", "environment")
        for entry in items(container, key)
        if (name := text(entry, "name"))
        and (value := text(entry, "value") or _value_from(block(entry, "valueFrom"), maps or {}))
    }


def _value_from(place: Block, maps: Mapping[str, Block]) -> Text | None:
    """Return the value to which `valueFrom` refers, or a placeholder; None for a pod's field."""
    for kind, called in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        name, key = text(place, kind, "name"), text(place, kind, "key")
        if name and key:
            found = text(maps.get(name), str(key))
            return found or Text.at(f"${{{key} of the {called} {name}}}", key.line)
    return None
