"""Topics that other operators make in Kubernetes: Crossplane, Jikkou, Knative, NAIS, one's own."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.own_config.listed_topics import own_name, topic
from ackproof.own_config.operators import name_of, resources_of
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.tree import Block, block, items, text


def read(source: Source) -> Part | None:
    """Read resources of the kinds KafkaTopic, KafkaTopicList, Topic and KafkaChannel."""
    resources = [root for root in source.documents if isinstance(root, Block)]
    found = resources_of(source, "/")
    if any(
        _REDPANDA in (text(one, "apiVersion") or "") and text(one, "kind") in _KINDS
        for one in found
    ):
        raise RefusalError("topics of Redpanda, which replicates by other rules than Apache Kafka")
    maps = {
        name_of(one): block(one, "data") for one in resources if text(one, "kind") == "ConfigMap"
    }
    topics = tuple(
        one
        for resource in found
        for name, entry in _entries(resource)
        if (one := topic(source, name, _with_maps(entry, maps))) and one.replication_factor
    )
    return Part(shape="operators", topics=topics) if topics else None


#: A channel of Knative is a topic.
_KINDS = ("KafkaTopic", "Topic", "KafkaChannel")
_REDPANDA = "cluster.redpanda.com"


def _entries(resource: Block) -> Iterator[tuple[str, Block]]:
    """Yield the topics of a resource with their names."""
    kind = str(text(resource, "kind") or "")
    spec = block(resource, "spec")
    if kind == "KafkaTopicList":
        inside = items(spec, "topics") or items(resource, "items")
        yield from ((own_name(one), one) for one in inside if isinstance(one, Block))
    elif kind in _KINDS:
        spec = block(spec, "forProvider") or spec
        yield own_name(spec) or name_of(resource), spec


def _with_maps(entry: Block, maps: dict[str, Block]) -> Block:
    """Return a topic with the settings of Jikkou's ConfigMaps to which it refers."""
    refs = [one for key in ("configMapRefs", "config_map_refs") for one in items(entry, key)]
    shared = [maps[str(one)] for one in refs if str(one) in maps]
    if not shared:
        return entry
    merged = Block(entry.line)
    merged.update(entry)
    merged.lines = entry.lines
    merged["config"] = Block(entry.line)
    for one in (*shared, block(entry, "configs"), block(entry, "config")):
        merged["config"].update(one)
    return merged


_EXAMPLE = """\
apiVersion: kafka.jikkou.io/v1beta2
kind: KafkaTopic
metadata:
  name: orders
spec:
  partitions: 12
  replicas: 3
  configs:
    min.insync.replicas: 2
"""
_CHANNEL = """\
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata:
  name: orders
spec:
  numPartitions: 3
  replicationFactor: 1
"""
FORMAT = Format(
    name="other operators",
    order=85,
    reads="`Topic`, `KafkaTopic`, `KafkaTopicList` and `KafkaChannel` of any other API group, such "
    "as Crossplane's, Jikkou's, Knative's and NAIS'",
    patterns=("*.yml", "*.yaml"),
    mentions="topic|KafkaChannel",
    examples={"jikkou.yaml": _EXAMPLE, "channel.yaml": _CHANNEL},
    read=read,
    notation="tree",
)
