"""Resources of Stackable's operator: `KafkaCluster` with roles and role groups."""

from __future__ import annotations

from dataclasses import replace

from ackproof.own_config.configuration import Given, Settings
from ackproof.own_config.operators import name_of, nodes_of, resources_of, whole
from ackproof.own_config.parts import Format, Node, Part, Source
from ackproof.own_config.tree import Block, block, text


def read(source: Source) -> Part | None:
    """Read KafkaCluster."""
    resources = resources_of(source, "kafka.stackable.tech")
    clusters = [one for one in resources if text(one, "kind") == "KafkaCluster"]
    if not clusters:
        return None
    first, *others = (_cluster(source, one) for one in clusters)
    return replace(first, others=tuple(others))


def _cluster(source: Source, resource: Block) -> Part:
    spec = block(resource, "spec")
    version = text(spec, "image", "productVersion")
    nodes = [
        Node(
            name=f"{role} {name}",
            count=nodes_of(source, group, 0),
            roles=frozenset({role}),
            settings={**_overrides(source, of_role), **_overrides(source, group)},
        )
        for role, key in (("broker", "brokers"), ("controller", "controllers"))
        for of_role in [block(spec, key)]
        for name, group in block(of_role, "roleGroups").items()
        if isinstance(group, Block)
    ]
    own = Part(
        shape="",
        kafka=source.given(version) if version else None,
        mode=_mode(source, spec),
        nodes=tuple(nodes),
    )
    return whole("stackable", [own], name_of(resource), [resource])


def _overrides(source: Source, role: Block) -> Settings:
    """Return the settings of `configOverrides`, in any of the files of brokers."""
    return {
        key: given
        for pairs in block(role, "configOverrides").values()
        if isinstance(pairs, Block)
        for key, given in source.settings(pairs).items()
    }


def _mode(source: Source, spec: Block) -> Given | None:
    manager = text(spec, "clusterConfig", "metadataManager")
    if manager in ("kraft", "zookeeper"):
        return source.given(manager)
    if "controllers" in spec:
        return Given("kraft", source.at(spec.lines["controllers"]))
    zookeeper = text(spec, "clusterConfig", "zookeeperConfigMapName")
    return Given("zookeeper", source.where(zookeeper)) if zookeeper else None


_EXAMPLE = """\
apiVersion: kafka.stackable.tech/v1alpha1
kind: KafkaCluster
metadata:
  name: orders
spec:
  image:
    productVersion: 3.9.1
  clusterConfig:
    metadataManager: kraft
  brokers:
    configOverrides:
      broker.properties:
        min.insync.replicas: "2"
    roleGroups:
      default:
        replicas: 3
"""
FORMAT = Format(
    name="Stackable",
    order=75,
    reads="`KafkaCluster`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"stackable.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
