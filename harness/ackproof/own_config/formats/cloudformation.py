"""CloudFormation of AWS: clusters and configurations of Amazon MSK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ackproof.own_config import amazon_msk
from ackproof.own_config.configuration import Given, Settings
from ackproof.own_config.parts import Format, Node, Part, Source
from ackproof.own_config.properties import parse
from ackproof.own_config.tree import Block, Text, block, text

_CLUSTER, _CONFIGURATION = "AWS::MSK::Cluster", "AWS::MSK::Configuration"


def read(source: Source) -> Part | None:
    """Read the clusters of Amazon MSK in a template, each with its configuration."""
    templates = [root for root in source.documents if isinstance(root, Block)]
    found = [one for root in templates for one in _resources(root)]
    configurations = {name: one for name, kind, one in found if kind == _CONFIGURATION}
    clusters = {name: one for name, kind, one in found if kind == _CLUSTER}
    if not found:
        return None
    source.warnings.append(f"{source.name}: {amazon_msk.DEFAULTS_DEPEND}")
    parts = []
    left = dict(configurations)
    parameters = [block(root, "Parameters") for root in templates]
    for name, cluster in clusters.items():
        named = _texts(block(cluster, "ConfigurationInfo"))
        own = [one for one in configurations if one in named]
        if not own and len(configurations) == len(clusters) == 1:
            own = [*configurations]
        settings: Settings = {}
        for one in own:
            settings = {**settings, **_settings(source, configurations[one])}
            left.pop(one, None)
        parts.append(_part(source, name, cluster, settings, parameters))
    parts += [
        _part(source, name, Block(), _settings(source, one), parameters)
        for name, one in left.items()
    ]
    if len(parts) == 1:
        return replace(parts[0], cluster="")
    return Part(shape="cloudformation", others=tuple(parts))


def _resources(root: Block) -> Iterator[tuple[str, str, Block]]:
    """Yield the names, the kinds and the properties of the resources of MSK."""
    for name, resource in block(root, "Resources").items():
        kind = text(resource, "Type") or ""
        if kind in (_CLUSTER, _CONFIGURATION):
            yield name, kind, block(resource, "Properties")


def _texts(node: Block) -> set[str]:
    """Return the names to which values refer, also those within `Fn::GetAtt` and `Fn::Sub`."""
    found: set[str] = set()
    for value in node.values():
        if isinstance(value, Block):
            found |= _texts(value)
        else:
            parts = value if isinstance(value, list) else [value]
            found |= {str(one).strip("${}").partition(".")[0] for one in parts}
    return found


def _settings(source: Source, configuration: Block) -> Settings:
    stated = text(configuration, "ServerProperties")
    stated = stated or text(configuration, "ServerProperties", "Fn::Sub")
    if stated is None:
        return {}
    first = stated.line + 1 if stated.block else stated.line
    return source.settings(parse(str(stated), first))


def _part(
    source: Source, name: str, cluster: Block, settings: Settings, parameters: Sequence[Block]
) -> Part:
    version = _value(source, cluster, "KafkaVersion", parameters)
    nodes = _value(source, cluster, "NumberOfBrokerNodes", parameters)
    tiered = (text(cluster, "StorageMode") or "") == "TIERED"
    node = Node(
        name=name,
        count=source.count(nodes.value, nodes.source) if nodes else None,
        settings={**amazon_msk.defaults(settings, tiered=tiered), **settings},
    )
    return Part(
        shape="cloudformation",
        cluster=name,
        kafka=amazon_msk.release(version),
        mode=amazon_msk.mode(version),
        nodes=(node,),
    )


def _value(source: Source, cluster: Block, name: str, parameters: Sequence[Block]) -> Given | None:
    """Return a value; that of a parameter is its default, and none without one."""
    stated = text(cluster, name) or text(cluster, name, "Ref")
    if stated is None:
        return None
    for every in parameters:
        if stated in every:
            default = text(every, stated, "Default")
            return source.given(default) if isinstance(default, Text) else None
    return source.given(stated)


_EXAMPLE = """\
Resources:
  Settings:
    Type: AWS::MSK::Configuration
    Properties:
      Name: settings
      ServerProperties: |
        min.insync.replicas=2
  Cluster:
    Type: AWS::MSK::Cluster
    Properties:
      KafkaVersion: 3.6.0
      NumberOfBrokerNodes: 3
      ConfigurationInfo: {Arn: !Ref Settings, Revision: 1}
"""
FORMAT = Format(
    name="CloudFormation",
    order=105,
    reads="clusters and configurations of Amazon MSK",
    patterns=("*.yml", "*.yaml", "*.json", "*.template"),
    mentions="AWS::MSK",
    examples={"template.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
