"""Resources of Confluent for Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackproof.own_config.configuration import Given
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
from ackproof.own_config.parts import Format, Node, Part, Source
from ackproof.own_config.properties import parse
from ackproof.own_config.tree import Block, Text, block, items, text


def read(source: Source) -> Part | None:
    """Read Kafka, KRaftController, KafkaTopic and Connect of Confluent for Kubernetes."""
    resources = resources_of(source, "platform.confluent.io")
    if not resources:
        return None
    brokers = [one for one in resources if text(one, "kind") == "Kafka"]
    named = [text(one, "spec", "kafkaClusterRef", "name") for one in resources]
    parts = [_part(source, one) for one in resources]
    return whole("confluent operator", parts, cluster_name(brokers, named), resources)


def _part(source: Source, resource: Block) -> Part:
    kind, spec = str(text(resource, "kind")), block(resource, "spec")
    settings = _lines(items(spec, "configOverrides", "server"))
    if kind == "Connect":
        return worker(source, resource, settings) or Part(shape="")
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
        return Part(shape="", topics=(topic_of(source, resource, "replicas", "configs"),))
    if kind not in ("Kafka", "KRaftController"):
        return Part(shape="", mode=mode)
    node = Node(
        name=name_of(resource),
        count=nodes_of(source, spec, 1),
        roles=frozenset({"broker" if kind == "Kafka" else "controller"}),
        settings=source.settings(settings),
    )
    kafka = stated_version(source, spec, "image.application")
    return Part(shape="", kafka=kafka, mode=mode, nodes=(node,))


def _lines(entries: Sequence[Any]) -> dict[str, Text]:
    """Return the settings of a list of `key=value`."""
    pairs: dict[str, Text] = {}
    for entry in entries:
        if isinstance(entry, Text):
            pairs |= parse(str(entry), entry.line)
    return pairs


_EXAMPLE = """\
apiVersion: platform.confluent.io/v1beta1
kind: Kafka
metadata:
  name: kafka
spec:
  replicas: 3
  configOverrides:
    server:
      - min.insync.replicas=2
"""
FORMAT = Format(
    name="Confluent for Kubernetes",
    order=70,
    reads="`Kafka`, `KRaftController`, `KafkaTopic`, `Connect`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"kafka.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
