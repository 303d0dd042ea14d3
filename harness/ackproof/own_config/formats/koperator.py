"""Resources of Koperator (banzaicloud.io)."""

from __future__ import annotations

from ackproof.own_config.configuration import Count, Given, Holder, Storage
from ackproof.own_config.operators import (
    cluster_name,
    name_of,
    resources_of,
    stated_version,
    topic_of,
    whole,
)
from ackproof.own_config.parts import Format, Node, Part, Source
from ackproof.own_config.properties import parse
from ackproof.own_config.tree import Block, Text, block, items, text
from ackproof_model.kafka_settings import PROCESS_ROLES


def read(source: Source) -> Part | None:
    """Read KafkaCluster and KafkaTopic of Koperator (banzaicloud.io)."""
    resources = resources_of(source, "kafka.banzaicloud.io")
    if not resources:
        return None
    brokers = [one for one in resources if text(one, "kind") == "KafkaCluster"]
    topics = tuple(
        topic_of(source, one, "replicationFactor", "config")
        for one in resources
        if text(one, "kind") == "KafkaTopic"
    )
    parts = [Part(shape="", topics=topics), *(_part(source, one) for one in brokers)]
    named = [text(one, "spec", "clusterRef", "name") for one in resources]
    return whole("koperator", parts, cluster_name(brokers, named), resources)


def _part(source: Source, resource: Block) -> Part:
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
        kafka=stated_version(source, spec, "clusterImage"),
        mode=mode,
        nodes=tuple(
            Node(
                name=f"{name_of(resource)} {text(broker, 'id') or ''}".strip(),
                count=Count(1, source.at(broker.line)),
                roles=frozenset(map(str, items(broker, "brokerConfig", "processRoles")))
                or frozenset({"broker"}),
                settings=source.settings(
                    cluster | _roles(broker) | _embedded(text(broker, "readOnlyConfig"))
                ),
                storage=_storage(source, spec, broker),
            )
            for broker in items(spec, "brokers")
        ),
    )


def _roles(broker: Block) -> dict[str, Text]:
    """Return the setting that the operator makes of a broker's roles."""
    roles = items(broker, "brokerConfig", "processRoles")
    return {PROCESS_ROLES: Text.at(",".join(roles), roles[0].line)} if roles else {}


def _storage(source: Source, spec: Block, broker: Block) -> Storage | None:
    """Return what holds a broker's logs: its `storageConfigs`, and those of its group."""
    group = text(broker, "brokerConfigGroup") or ""
    listed = [
        *items(broker, "brokerConfig", "storageConfigs"),
        *items(spec, "brokerConfigGroups", group, "storageConfigs"),
    ]
    empty = next((one for one in listed if "emptyDir" in block(one)), None)
    entry = block(empty or next(iter(listed), None))
    key = next((one for one in ("emptyDir", "pvcSpec") if one in entry), "")
    if not key:
        return None
    ends = key == "emptyDir"
    return Storage(
        holder=Holder.POD if ends else Holder.VOLUME,
        setting="storageConfigs",
        value=key,
        source=source.at(entry.lines[key]),
        change="pvcSpec" if ends else "",
    )


def _embedded(value: Text | None) -> dict[str, Text]:
    return parse(str(value), value.line + value.block) if value else {}


_EXAMPLE = """\
apiVersion: kafka.banzaicloud.io/v1beta1
kind: KafkaCluster
metadata:
  name: kafka
spec:
  readOnlyConfig: |
    min.insync.replicas=2
  brokers:
    - id: 0
    - id: 1
    - id: 2
"""
FORMAT = Format(
    name="Koperator",
    order=80,
    reads="`KafkaCluster`, `KafkaTopic`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"kafka.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
