"""Reads the resources of operators: Strimzi, Confluent for Kubernetes, Koperator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.environment import version
from ackproof.own_config.parts import (
    UNKNOWN,
    Node,
    Part,
    RefusalError,
    Source,
    parse,
    refuse_template,
    together,
)
from ackproof.own_config.properties import classify
from ackproof.own_config.tree import Block, Text, block, flat, items, text


def _resources(source: Source, group: str) -> list[Block]:
    found = []
    for root in source.documents:
        listed = items(root, "items") if text(root, "kind") == "List" else [root]
        found += [
            one
            for one in listed
            if isinstance(one, Block) and group in (text(one, "apiVersion") or "")
        ]
    return found


def _name(resource: Block) -> str:
    return str(text(resource, "metadata", "name") or text(resource, "kind") or "")


def _count(source: Source, node: Block, key: str, least: int) -> Given | None:
    """Return a count. Raises RefusalError if it is not a whole number of at least `least`."""
    value = node.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, Text):
        refuse_template(value)
    if not isinstance(value, Text) or not value.isdecimal() or int(value) < least or len(value) > 9:
        line = node.lines[key]
        raise RefusalError(f"line {line}: {key}: {value!r} is not a whole number from {least}")
    return source.given(value)


def strimzi(source: Source) -> Part | None:
    """Read Kafka, KafkaNodePool, KafkaTopic, KafkaConnect and KafkaMirrorMaker2 of Strimzi."""
    resources = _resources(source, "kafka.strimzi.io") or [
        root
        for root in source.documents
        if isinstance(root, Block)
        and "apiVersion" not in root
        and "spec" in root
        and text(root, "kind") in ("Kafka", "KafkaNodePool", "KafkaTopic")
    ]
    if not resources:
        return None
    first, *others = (_strimzi(source, group) for group in _by_cluster(resources))
    return replace(first, others=tuple(others))


def _by_cluster(resources: Sequence[Block]) -> list[list[Block]]:
    """Return the resources of each Kafka of a file, and those that name none of them."""
    names = [_name(one) for one in resources if text(one, "kind") == "Kafka"]
    if len(names) < 2:
        return [list(resources)]
    groups: dict[str, list[Block]] = {name: [] for name in names}
    for one in resources:
        label = str(text(one, "metadata", "labels", "strimzi.io/cluster") or "")
        cluster = _name(one) if text(one, "kind") == "Kafka" else label
        groups.setdefault(cluster, []).append(one)
    return list(groups.values())


def _strimzi(source: Source, resources: Sequence[Block]) -> Part:
    of_kind: dict[str, list[Block]] = {}
    for resource in resources:
        of_kind.setdefault(str(text(resource, "kind") or ""), []).append(resource)
    clusters, pools = of_kind.get("Kafka", []), of_kind.get("KafkaNodePool", [])
    kafka = block(clusters[0], "spec", "kafka") if clusters else Block()
    settings = source.settings(flat(block(kafka, "config")))
    if rack := text(kafka, "rack", "topologyKey"):
        settings = {**settings, "broker.rack": source.given(rack)}
    nodes = [
        Node(
            name=_name(pool),
            count=_count(source, block(pool, "spec"), "replicas", 0),
            roles=frozenset(map(str, items(pool, "spec", "roles"))) or frozenset({"broker"}),
            settings=settings,
        )
        for pool in pools
    ]
    if clusters and not pools:
        nodes.append(
            Node(
                name=_name(clusters[0]),
                count=_count(source, kafka, "replicas", 1),
                settings=settings,
            )
        )
    others = [
        part
        for kind in ("KafkaConnect", "KafkaMirrorMaker2", "KafkaMirrorMaker")
        for resource in of_kind.get(kind, ())
        if (part := _connect(source, resource))
    ]
    own = Part(
        shape="",
        kafka=_stated(source, kafka, "version", "image"),
        mode=_mode(source, clusters, pools),
        nodes=tuple(node for node in nodes if node.count is None or node.count.value != "0"),
        topics=tuple(
            _topic(source, one, "replicas", "config") for one in of_kind.get("KafkaTopic", ())
        ),
    )
    labels = [text(one, "metadata", "labels", "strimzi.io/cluster") for one in resources]
    return _whole("strimzi", [own, *others], _cluster(clusters, labels), resources)


def _whole(shape: str, parts: Sequence[Part], cluster: str, resources: Sequence[Block]) -> Part:
    """Return what an operator's resources say. Raises RefusalError if it is nothing."""
    part = together(shape, parts, cluster=cluster)
    if part.empty:
        kinds = ", ".join(sorted({str(text(one, "kind")) for one in resources}))
        raise RefusalError(f"{UNKNOWN}: resources of {shape} ({kinds}): not of brokers or topics")
    return part


def _cluster(clusters: Sequence[Block], named: Iterable[Text | None]) -> str:
    """Return the cluster's name, else that by which other resources name it."""
    names = [*map(_name, clusters), *(str(name) for name in named if name)]
    space = next((text(one, "metadata", "namespace") for one in clusters), None)
    return "/".join(filter(None, (space, names[0]))) if names else ""


def _stated(source: Source, spec: Block, *path: str) -> Given | None:
    """Return the version of Kafka that a key states; of the last key it is that of an image."""
    *named, image = path
    for key in named:
        if value := text(spec, key):
            return source.given(value)
    of_image = text(spec, *image.split("."))
    return version(of_image, source) if of_image else None


def _mode(source: Source, clusters: Sequence[Block], pools: Sequence[Block]) -> Given | None:
    for pool in pools:
        for role in items(pool, "spec", "roles"):
            if role == "controller":
                return Given("kraft", source.at(role.line))
    for cluster in clusters:
        annotation = text(cluster, "metadata", "annotations", "strimzi.io/kraft")
        if annotation == "enabled":
            return Given("kraft", source.at(annotation.line))
        spec = block(cluster, "spec")
        if "zookeeper" in spec:
            return Given("zookeeper", source.at(spec.lines["zookeeper"]))
    return None


def _topic(source: Source, resource: Block, replicas: str, config: str) -> Topic:
    spec = block(resource, "spec")
    partitions = "partitionCount" if "partitionCount" in spec else "partitions"
    name = text(spec, "topicName") or text(spec, "name") or text(resource, "metadata", "name")
    return Topic(
        name=str(name or ""),
        partitions=_count(source, spec, partitions, 1),
        replication_factor=_count(source, spec, replicas, 1),
        settings=source.settings(flat(block(spec, config))),
    )


def _connect(source: Source, resource: Block) -> Part | None:
    """Read a worker; the clusters of MirrorMaker 2 have settings of their own."""
    pairs = flat(block(resource, "spec", "config"))
    for cluster in items(resource, "spec", "clusters"):
        pairs |= flat(block(cluster, "config"))
    pairs |= flat(block(resource, "spec", "target", "config"))
    part = _worker(source, resource, pairs)
    mirrors = [
        flat(block(mirror, "sourceConnector", "config"))
        for mirror in items(resource, "spec", "mirrors")
    ]
    replicas = [one["replication.factor"] for one in mirrors if "replication.factor" in one]
    if part and replicas:
        topic = Topic(
            name="mirrored topics",
            replication_factor=source.settings({"replicas": replicas[0]}).get("replicas"),
        )
        part = replace(part, topics=(*part.topics, topic))
    return part


def _worker(source: Source, resource: Block, pairs: dict[str, Text]) -> Part | None:
    pairs.setdefault("config.storage.topic", Text.at("", resource.line))
    part = classify(replace(source, hint=""), pairs)
    return part.named(f"{source.name} ({_name(resource)})") if part else None


def confluent(source: Source) -> Part | None:
    """Read Kafka, KRaftController, KafkaTopic and Connect of Confluent for Kubernetes."""
    resources = _resources(source, "platform.confluent.io")
    if not resources:
        return None
    brokers = [one for one in resources if text(one, "kind") == "Kafka"]
    named = [text(one, "spec", "kafkaClusterRef", "name") for one in resources]
    parts = [_of_confluent(source, one) for one in resources]
    return _whole("confluent operator", parts, _cluster(brokers, named), resources)


def _of_confluent(source: Source, resource: Block) -> Part:
    kind, spec = str(text(resource, "kind")), block(resource, "spec")
    settings = _lines(items(spec, "configOverrides", "server"))
    if kind == "Connect":
        return _worker(source, resource, settings) or Part(shape="")
    needs = block(spec, "dependencies")
    mode = next(
        (
            Given(name, source.at(needs.lines.get(shows, resource.line)))
            for name, shows in (("zookeeper", "zookeeper"), ("kraft", "kRaftController"))
            if kind.lower() == shows.lower() or shows in needs
        ),
        None,
    )
    if kind == "KafkaTopic":
        return Part(shape="", topics=(_topic(source, resource, "replicas", "configs"),))
    if kind not in ("Kafka", "KRaftController"):
        return Part(shape="", mode=mode)
    node = Node(
        name=_name(resource),
        count=_count(source, spec, "replicas", 1),
        roles=frozenset({"broker" if kind == "Kafka" else "controller"}),
        settings=source.settings(settings),
    )
    kafka = _stated(source, spec, "image.application")
    return Part(shape="", kafka=kafka, mode=mode, nodes=(node,))


def _lines(entries: Sequence[Any]) -> dict[str, Text]:
    """Return the settings of a list of `key=value`."""
    pairs: dict[str, Text] = {}
    for entry in entries:
        if isinstance(entry, Text):
            pairs |= parse(str(entry), entry.line)
    return pairs


def koperator(source: Source) -> Part | None:
    """Read KafkaCluster and KafkaTopic of Koperator (banzaicloud.io)."""
    resources = _resources(source, "kafka.banzaicloud.io")
    if not resources:
        return None
    brokers = [one for one in resources if text(one, "kind") == "KafkaCluster"]
    topics = tuple(
        _topic(source, one, "replicationFactor", "config")
        for one in resources
        if text(one, "kind") == "KafkaTopic"
    )
    parts = [Part(shape="", topics=topics), *(_of_koperator(source, one) for one in brokers)]
    named = [text(one, "spec", "clusterRef", "name") for one in resources]
    return _whole("koperator", parts, _cluster(brokers, named), resources)


def _of_koperator(source: Source, resource: Block) -> Part:
    spec = block(resource, "spec")
    cluster = {
        key: value
        for name in ("readOnlyConfig", "clusterWideConfig")
        for key, value in _embedded(text(spec, name)).items()
    }
    mode = None
    if (quorum := text(spec, "kRaft")) == "true":
        mode = Given("kraft", source.where(quorum))
    elif "zkAddresses" in spec:
        mode = Given("zookeeper", source.at(spec.lines["zkAddresses"]))
    return Part(
        shape="",
        kafka=_stated(source, spec, "clusterImage"),
        mode=mode,
        nodes=tuple(
            Node(
                name=f"{_name(resource)} {text(broker, 'id') or ''}".strip(),
                count=Given("1", source.at(broker.line)),
                roles=frozenset(map(str, items(broker, "brokerConfig", "processRoles")))
                or frozenset({"broker"}),
                settings=source.settings(cluster | _embedded(text(broker, "readOnlyConfig"))),
            )
            for broker in items(spec, "brokers")
        ),
    )


def _embedded(value: Text | None) -> dict[str, Text]:
    return parse(str(value), value.line + value.block) if value else {}
