"""Resources of Strimzi."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ackproof.own_config.configuration import Given, Holder, Storage, Topic
from ackproof.own_config.formats.connect import MIRRORED
from ackproof.own_config.formats.properties import classify
from ackproof.own_config.operators import (
    cluster_name,
    name_of,
    nodes_of,
    resources_of,
    stated_version,
    topic_of,
    whole,
    worker,
)
from ackproof.own_config.parts import Format, Node, Part, Source, UnrecognisedError
from ackproof.own_config.properties import CONNECTOR
from ackproof.own_config.tree import Block, Text, block, flat, items, text


def read(source: Source) -> Part | None:
    """Read Strimzi's brokers, topics, workers and connectors of Connect, and MirrorMaker 2."""
    resources = resources_of(source, "kafka.strimzi.io") or [
        root
        for root in source.documents
        if isinstance(root, Block)
        and "apiVersion" not in root
        and "spec" in root
        and text(root, "kind") in ("Kafka", "KafkaNodePool", "KafkaTopic")
    ]
    if not resources:
        return None
    first, *others = (_of_cluster(source, group) for group in _by_cluster(resources))
    return replace(first, others=tuple(others))


def _by_cluster(resources: Sequence[Block]) -> list[list[Block]]:
    """Group the resources of a file by the Kafka cluster that they name."""
    names = [name_of(one) for one in resources if text(one, "kind") == "Kafka"]
    if len(names) < 2:
        return [list(resources)]
    groups: dict[str, list[Block]] = {name: [] for name in names}
    for one in resources:
        label = str(text(one, "metadata", "labels", "strimzi.io/cluster") or "")
        cluster = name_of(one) if text(one, "kind") == "Kafka" else label
        groups.setdefault(cluster, []).append(one)
    return list(groups.values())


def _of_cluster(source: Source, resources: Sequence[Block]) -> Part:
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
            name=name_of(pool),
            count=nodes_of(source, block(pool, "spec"), 0),
            roles=frozenset(map(str, items(pool, "spec", "roles"))) or frozenset({"broker"}),
            settings=settings,
            storage=_storage(source, block(pool, "spec", "storage"))
            or _storage(source, block(kafka, "storage")),
        )
        for pool in pools
    ]
    if clusters and not pools:
        nodes.append(
            Node(
                name=name_of(clusters[0]),
                count=None if _has_pools(clusters[0]) else nodes_of(source, kafka, 1),
                settings=settings,
                storage=_storage(source, block(kafka, "storage")),
            )
        )
    others = [
        part
        for kind in ("KafkaConnect", "KafkaMirrorMaker2", "KafkaMirrorMaker")
        for resource in of_kind.get(kind, ())
        if (part := _connect(source, resource))
    ]
    connectors = (_connector(source, one) for one in of_kind.get("KafkaConnector", ()))
    others += [part for part in connectors if part]
    own = Part(
        shape="",
        kafka=stated_version(source, kafka, "version", "image"),
        mode=_mode(source, clusters, pools),
        nodes=tuple(node for node in nodes if node.count is None or node.count.value),
        topics=tuple(
            topic_of(source, one, "replicas", "config") for one in of_kind.get("KafkaTopic", ())
        ),
    )
    _note_misplaced(source, clusters)
    labels = [text(one, "metadata", "labels", "strimzi.io/cluster") for one in resources]
    inside = [*pools, *of_kind.get("KafkaTopic", ())]
    return whole("strimzi", [own, *others], cluster_name(clusters, labels, inside), resources)


def _has_pools(cluster: Block) -> bool:
    """Whether its brokers are in KafkaNodePools, so that Strimzi ignores `spec.kafka.replicas`."""
    return text(cluster, "metadata", "annotations", "strimzi.io/node-pools") == "enabled"


def _note_misplaced(source: Source, clusters: Sequence[Block]) -> None:
    """Note what stands in `spec` and Strimzi reads in `spec.kafka` only."""
    for cluster in clusters:
        spec = block(cluster, "spec")
        for key in ("config", "storage"):
            if key in spec:
                inside = ", ".join(map(str, block(spec, key)))
                source.warnings.append(
                    f"{source.name}:{spec.lines[key]}: spec.{key} ({inside}): Strimzi reads "
                    f"spec.kafka.{key}: not used"
                )


def _storage(source: Source, stated: Block) -> Storage | None:
    """Return what a `storage` says: ephemeral, persistent-claim, or jbod of these."""
    types = [text(one, "type") for one in (stated, *items(stated, "volumes"))]
    kinds = [kind for kind in types if kind in ("ephemeral", "persistent-claim")]
    if not kinds:
        return None
    kind = min(kinds)  # "ephemeral" comes first
    return Storage(
        holder=Holder.POD if kind == "ephemeral" else Holder.VOLUME,
        setting="storage.type" if text(stated, "type") == kind else "storage.volumes.type",
        value=str(kind),
        source=source.where(kind),
        change="persistent-claim" if kind == "ephemeral" else "",
    )


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


def _connect(source: Source, resource: Block) -> Part | None:
    """Read a worker; each cluster of MirrorMaker 2 has its own settings."""
    pairs = flat(block(resource, "spec", "config"))
    for cluster in items(resource, "spec", "clusters"):
        pairs |= flat(block(cluster, "config"))
    pairs |= flat(block(resource, "spec", "target", "config"))
    part = worker(source, resource, pairs)
    mirrors = [
        flat(block(mirror, "sourceConnector", "config"))
        for mirror in items(resource, "spec", "mirrors")
    ]
    replicas = [one["replication.factor"] for one in mirrors if "replication.factor" in one]
    if part and replicas:
        topic = Topic(
            name=MIRRORED,
            replication_factor=source.settings({"replicas": replicas[0]}).get("replicas"),
        )
        part = replace(part, topics=(*part.topics, topic))
    return part


def _connector(source: Source, resource: Block) -> Part | None:
    """Read a connector; None if it has no settings of topics or clients."""
    spec = block(resource, "spec")
    named = text(spec, "class") or Text.at("", resource.line)
    try:
        part = classify(replace(source, hint=""), {CONNECTOR: named, **flat(block(spec, "config"))})
    except UnrecognisedError:
        return None
    return part.named(f"{source.name} ({name_of(resource)})") if part else None


_EXAMPLE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata:
  name: orders
spec:
  kafka:
    version: 3.9.1
    replicas: 3
    config:
      min.insync.replicas: 2
"""
FORMAT = Format(
    name="Strimzi",
    order=60,
    reads="`Kafka`, `KafkaNodePool`, `KafkaTopic`, `KafkaConnect`, `KafkaConnector`, "
    "`KafkaMirrorMaker2`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"kafka.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
