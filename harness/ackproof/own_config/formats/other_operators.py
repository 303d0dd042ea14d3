"""Topics that other operators make in Kubernetes, such as Crossplane's provider."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.own_config.configuration import Topic
from ackproof.own_config.operators import count_of, name_of, resources_of, whole
from ackproof.own_config.parts import Format, Part, RefusalError, Source
from ackproof.own_config.tree import Block, block, flat, text

#: The names that operators use for the same value.
_REPLICAS = ("replicationFactor", "replicas")
_SETTINGS = ("config", "configs", "configuration")
_KINDS = ("KafkaTopic", "Topic")
_REDPANDA = "cluster.redpanda.com"


def read(source: Source) -> Part | None:
    """Read topics of any API group that have Kafka's replicas or settings."""
    found = [one for one in resources_of(source, "/") if text(one, "kind") in _KINDS]
    if any(_REDPANDA in (text(one, "apiVersion") or "") for one in found):
        raise RefusalError("topics of Redpanda, which replicates by other rules than Apache Kafka")
    topics = [one for one in found if _key(_spec(one), _REPLICAS)]
    if not topics:
        return None
    part = Part(shape="", topics=tuple(_topic(source, one) for one in topics))
    return whole("operators", [part], "", topics)


def _spec(resource: Block) -> Block:
    """Return the desired state; Crossplane has it in `forProvider`."""
    return block(resource, "spec", "forProvider") or block(resource, "spec")


def _key(spec: Block, names: Sequence[str]) -> str:
    return next((name for name in names if name in spec), "")


def _topic(source: Source, resource: Block) -> Topic:
    spec = _spec(resource)
    return Topic(
        name=str(text(spec, "topicName") or text(spec, "name") or name_of(resource)),
        partitions=count_of(source, spec, "partitions", 1),
        replication_factor=count_of(source, spec, _key(spec, _REPLICAS), 1),
        settings=source.settings(flat(block(spec, _key(spec, _SETTINGS)))),
    )


_EXAMPLE = """\
apiVersion: topic.kafka.crossplane.io/v1alpha1
kind: Topic
metadata:
  name: orders
spec:
  forProvider:
    replicationFactor: 3
    partitions: 1
    config:
      min.insync.replicas: "2"
"""
FORMAT = Format(
    name="other operators",
    order=85,
    reads="`Topic` and `KafkaTopic` of any other API group, such as Crossplane's",
    patterns=("*.yml", "*.yaml"),
    mentions="replic",
    examples={"topic.yaml": _EXAMPLE},
    read=read,
    notation="tree",
)
