"""Inventories of Confluent's playbooks for Ansible (cp-ansible)."""

from __future__ import annotations

from dataclasses import replace

from ackproof.own_config.configuration import Count, Given
from ackproof.own_config.environment import version
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Block, Text, block, mappings, text


def read(source: Source) -> Part | None:
    """Read the settings of an inventory, the version of its packages, and its groups of hosts."""
    root = next((one for one in source.documents if isinstance(one, Block)), Block())
    package = text(root, "all", "vars", "confluent_package_version")
    if "kafka_broker" not in root or not (package or "zookeeper" in root or _CONTROLLERS in root):
        return None
    part = joined(
        source,
        "cp-ansible",
        [
            {key: value for key, value in node.items() if isinstance(value, Text)}
            for node in mappings(root)
        ],
    )
    image = Text.at(f"confluentinc/cp-server:{package}", package.line) if package else None
    kafka = version(image, source) if image else None
    if part is None and kafka is None:
        return None
    hosts = block(root, "kafka_broker", "hosts")
    count = Count(len(hosts), source.at(hosts.line)) if hosts else None
    found = part or Part(shape="cp-ansible")
    of_brokers = [node for node in found.nodes if "broker" in node.roles]
    return replace(
        found,
        kafka=kafka,
        mode=_mode(source, root),
        nodes=tuple(
            replace(node, count=count) if node in of_brokers[:1] else node for node in found.nodes
        ),
    )


_CONTROLLERS = "kafka_controller"


def _mode(source: Source, root: Block) -> Given | None:
    for group, mode in ((_CONTROLLERS, "kraft"), ("zookeeper", "zookeeper")):
        if group in root:
            return Given(mode, source.at(root.lines[group]))
    return None


_EXAMPLE = """\
all:
  vars:
    confluent_package_version: 7.9.1
    kafka_broker_custom_properties:
      min.insync.replicas: 2
kafka_controller:
  hosts: {c1: , c2: , c3: }
kafka_broker:
  hosts: {b1: , b2: , b3: }
"""
FORMAT = Format(
    name="cp-ansible",
    order=183,
    reads="inventories: `confluent_package_version`, groups of hosts, `…_custom_properties`",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka_broker",
    examples={"hosts.yml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
