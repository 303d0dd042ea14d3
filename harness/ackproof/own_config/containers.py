"""Reads brokers and applications in containers: compose, Kubernetes, ECS tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from ackproof.own_config import applications, environment
from ackproof.own_config.commands import overridden, started, texts, topics
from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.names import is_known
from ackproof.own_config.parts import UNKNOWN, Part, RefusalError, Source, parse, together
from ackproof.own_config.properties import classify
from ackproof.own_config.tree import Block, NotYamlError, Text, block, items, text

#: Other software with Kafka's protocol.
_OTHERS = re.compile(r"redpanda(?!data/(console|connect))|warpstream|automq|bufstream")


@dataclass
class _Found:
    """What the containers of one file say."""

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
        count: Given | None,
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
            node = environment.node(
                name, settings, self.source, image=str(image or ""), count=count
            )
            self.parts.append(Part(shape="", nodes=(node,)))
            version = environment.version(image, self.source) if image else None
            self.versions += [version] if version else []
            named = [*started(self.source, command), *_outside(self.source, stated)]
            files = _IMAGES_READ if settings else _CONFIG
            self.unread += named or _mounted(self.source, stated, files)
        clients = environment.clients(variables, self.source, name)
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
            together(shape, self.parts),
            kafka=min(
                self.versions,
                key=lambda given: [*map(int, re.findall(r"\d+", given.value))],
                default=None,
            ),
            unread=() if self.has_properties else tuple(self.unread),
        )


def compose(source: Source) -> Part | None:
    """Read a compose file."""
    root = next(iter(source.documents), None)
    services = block(root, "services")
    first = next(iter(root.values()), None) if isinstance(root, Block) else None
    if not services and {"image", "environment"} <= block(first).keys():
        services = block(root)  # version 1 of the format
    if not services:
        return None
    found = _Found(source)
    fill = _interpolation(source)
    for name, stated in services.items():
        if not isinstance(stated, Block):
            continue
        service = _extended(stated, services)
        image = text(service, "image")
        image = Text.at(fill(image, report=False), image.line) if image else None
        found.container(
            name,
            image,
            {
                key: Text.at(
                    fill(value, report=bool(_REPORTED.match(key))), value.line, file=value.file
                )
                for key, value in _variables(source, service).items()
            },
            service,
            count=_replicas(source, service, name),
        )
        found.topics(topics(source, service))
    part = found.part("compose")
    if replace(part, kafka=None).empty:
        names = ", ".join([*services][:5])
        if found.others:
            raise RefusalError(found.others[0])
        raise RefusalError(
            f"{UNKNOWN}: a compose file whose services ({names}) have no image of Kafka, and no "
            "variables of a client such as SPRING_KAFKA_PRODUCER_ACKS"
        )
    return part


def _extended(service: Block, services: Block) -> Block:
    """Return a service with what it extends in the same file."""
    base = service.get("extends")
    name = str(base) if isinstance(base, Text) else str(text(base, "service") or "")
    if name not in services or (isinstance(base, Block) and "file" in base):
        return service
    parent = services[name]
    if not isinstance(parent, Block) or parent is service:
        return service
    merged = Block(service.line)
    merged.update({**parent, **service})
    merged.lines = {**parent.lines, **service.lines}
    if isinstance(parent.get("environment"), Block) and isinstance(
        service.get("environment"), Block
    ):
        environments = Block(service.line)
        environments.update({**parent["environment"], **service["environment"]})
        merged["environment"] = environments
    return merged


def _env_files(container: Block) -> list[Text]:
    files = container.get("env_file")
    entries = files if isinstance(files, list) else [files]
    named = [one if isinstance(one, Text) else text(one, "path") for one in entries]
    return [one for one in named if one]


def _variables(source: Source, service: Block) -> dict[str, Text]:
    """Return the variables of a service: its env files, then its own."""
    variables: dict[str, Text] = {}
    for name in _env_files(service):
        content = source.beside(str(name))
        if content is None:
            source.warnings.append(f"{source.where(name)}: env_file {name}: there is no such file")
        file = str(PurePath(source.name).parent / name)
        parsed = environment.parse(Source(name=file, text=content or "", warnings=source.warnings))
        variables |= {
            key: Text.at(str(value), value.line, file=file) for key, value in parsed.items()
        }
    own = service.get("environment")
    if isinstance(own, Block):
        variables |= {key: value for key, value in own.items() if isinstance(value, Text)}
    for entry in own if isinstance(own, list) else []:
        if isinstance(entry, Text):
            key, equals, value = entry.partition("=")
            variables |= {key.strip(): Text.at(value, entry.line)} if equals else {}
    return variables


#: Variables whose value may decide about a record: no addresses, and no secrets.
_REPORTED = re.compile(
    r"(KAFKA|CONNECT|SPRING)_(?!.*(LISTENER|HOST|QUORUM|CONNECT$|SERVERS|URL|PORT|CLUSTER_ID|OPTS"
    r"|USER|PASS|SECRET|TOKEN|KEY|JAAS))"
)
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


def _interpolation(source: Source) -> Callable[..., str]:
    """Return a function that puts variables of `.env` and their defaults into a text."""
    beside = source.beside(".env")
    variables = environment.parse(Source(name=".env", text=beside)) if beside else {}

    def fill(value: Text, *, report: bool = True) -> str:
        def put(match: re.Match[str]) -> str:
            name = match[1] or match[4]
            if name is None:
                return "$"
            if name in variables:
                return str(variables[name])
            if match[2] in (":-", "-"):
                if report:
                    source.warnings.append(
                        f"{source.name}:{value.line}: {match[3]!r} is the default of {name}, which "
                        "may replace it"
                    )
                return match[3]
            return f"${{{name}}}"

        return _VARIABLE.sub(put, value) if "$" in value else value

    return fill


def _replicas(source: Source, service: Block, name: str) -> Given:
    stated = text(service, "deploy", "replicas") or text(service, "scale")
    if stated and stated.isdecimal():
        return source.given(stated)
    return Given("1", source.at(service.line))


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
    """Return the files and maps of variables that a container names and that were not given."""
    maps = [
        text(entry, kind, "name")
        for entry in items(container, "envFrom")
        for kind in ("configMapRef", "secretRef")
    ]
    missing = [one for one in _env_files(container) if source.beside(str(one)) is None]
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


_COUNTED = ("StatefulSet", "Deployment", "ReplicaSet", "StatefulSetSpec")


def kubernetes(source: Source) -> Part | None:
    """Read Kubernetes' resources, or a part of one: containers with env, ConfigMaps."""
    found = _Found(source)
    for root in source.documents:
        if not isinstance(root, Block) or "services" in root:
            continue
        resources = items(root, "items") if root.get("kind") == "List" else [root]
        for resource in resources:
            _resource(found, resource)
    part = found.part("kubernetes")
    return None if part.empty else part


def _resource(found: _Found, resource: object) -> None:
    kind = str(text(resource, "kind") or "")
    if kind == "ConfigMap":
        data = {
            key: value for key, value in block(resource, "data").items() if isinstance(value, Text)
        }
        for key, value in data.items():
            found.add(_inside(found.source, value, key))
        if settings := environment.broker_settings(data, "", found.source):
            name = str(text(resource, "metadata", "name") or "ConfigMap")
            node = environment.node(name, settings, found.source, image="", count=None)
            found.add(Part(shape="", nodes=(node,)))
        return
    replicas = text(resource, "spec", "replicas") if kind in _COUNTED else None
    name = str(text(resource, "metadata", "name") or found.source.name)
    for container in containers(resource):
        variables = _named_values(container)
        image = text(container, "image")
        if variables or (image and kind):
            count = found.source.given(replicas) if replicas and replicas.isdecimal() else None
            if count is None and kind in _COUNTED:
                count = Given("1", found.source.at(block(resource).line))
            found.container(name, image, variables, container, count=count)
        found.topics(topics(found.source, container))


def _inside(source: Source, value: Text, name: str) -> Part | None:
    """Read a file in a ConfigMap: settings, or the YAML of an application."""
    if not (value.block and name.endswith((".yml", ".yaml"))):
        return embedded(source, value, name)
    lines = "\n" * value.line  # so that each line has its number in the ConfigMap's file
    try:
        return applications.read(replace(source, text=f"{lines}{value}"))
    except (NotYamlError, RefusalError) as error:
        line = error.line if isinstance(error, NotYamlError) and error.line else value.line
        source.warnings.append(f"{source.name}:{line}: {name} is not used: {error}")
        return None


def embedded(source: Source, value: Text, name: str = "") -> Part | None:
    """Read a text of settings inside another file, such as `server.properties: |`."""
    if "=" not in value or not (value.block or "\n" in value):
        return None
    try:
        pairs = parse(str(value), value.line + value.block)
    except RefusalError:
        return None
    if 2 * sum(map(is_known, pairs)) < len(pairs):
        return None
    return classify(replace(source, hint="broker" if "server" in name else ""), pairs)


def containers(node: object, depth: int = 0) -> Iterator[Block]:
    """Yield every mapping with a list `env`, or `environment`, of names and values."""
    if depth > 30:
        return
    if isinstance(node, Block):
        if _named_values(node) or isinstance(node.get("image"), Text):
            yield node
        for key, value in node.items():
            if key not in ("env", "environment"):
                yield from containers(value, depth + 1)
    elif isinstance(node, list):
        for item in node:
            yield from containers(item, depth + 1)


def _named_values(container: Block) -> dict[str, Text]:
    """Return the variables of `env: [{name: …, value: …}]`."""
    return {
        str(name): value
        for key in ("env", "environment")
        for entry in items(container, key)
        if (name := text(entry, "name")) and (value := text(entry, "value"))
    }


def ecs(source: Source) -> Part | None:
    """Read a task definition of ECS."""
    root = next(iter(source.documents), None)
    task = block(root, "taskDefinition") or root
    if not isinstance(task, Block) or "containerDefinitions" not in task:
        return None
    found = _Found(source)
    for container in items(task, "containerDefinitions"):
        name = str(text(container, "name") or source.name)
        found.container(
            name, text(container, "image"), _named_values(container), container, count=None
        )
    part = found.part("ECS task")
    return None if part.empty else part
