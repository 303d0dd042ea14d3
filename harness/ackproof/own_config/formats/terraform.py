"""Terraform: resources of topics; clusters and configurations of Amazon MSK and Aiven."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePath

from ackproof.own_config import amazon_msk
from ackproof.own_config.configuration import Default, Given, Topic
from ackproof.own_config.hcl import Reader
from ackproof.own_config.parts import (
    OPEN_OF_BROKERS,
    OPEN_OF_TOPICS,
    Format,
    Node,
    Part,
    RefusalError,
    Source,
    UnrecognisedError,
)
from ackproof.own_config.properties import parse
from ackproof.own_config.terraform_values import Scope, name_file, unresolved
from ackproof.own_config.tree import Block, NotYamlError, Text, block, documents, flat, items, text

_RESOURCE = re.compile(
    r'^\s*(resource|variable|module|provider|data|locals|terraform)\s*("|\{)', re.M
)


def read(source: Source) -> Part | None:
    """Read the resources of Kafka in a file of Terraform."""
    if not _RESOURCE.search(source.text) or re.search(r"(?m)^package \w+$", source.text):
        return None
    try:
        root = Reader(source.text).body()
        scope = _scope(source, root)
    except RecursionError:
        raise RefusalError("its blocks or calls are nested too deeply to be read") from None
    clusters: list[tuple[Block, Node | None, Given | None]] = []
    topics: list[Topic] = []
    kinds = []
    resources = [
        resource
        for stated in (*items(root, "resource"), *items(root, "module"))
        for resource in _repeated(stated, scope)
    ]
    for resource in resources:
        labels = [str(label) for label in items(resource, "labels")]
        module = text(resource, "source") if "kafka_version" in resource else None
        amazon = module is not None and "msk" in module.lower()
        kind = "module" if amazon else labels[0] if len(labels) > 1 else ""
        if module and not amazon:
            source.warnings.append(
                f"{source.name}:{resource.line}: module {_name(resource)}: {module} is not "
                "recognised as a module of Amazon MSK: not used"
            )
        kinds.append(kind)
        if make := _TOPICS.get(kind):
            topics.append(make(source, resource))
        elif kind in _CLUSTERS:
            node, version = _CLUSTERS[kind](source, resource)
            clusters += [(resource, node, version)] if node or version else []
    if not (clusters or topics):
        has, reads = ", ".join(sorted(set(kinds))) or "none", ", ".join([*_TOPICS, *_CLUSTERS])
        raise UnrecognisedError(f"Terraform with these resources: {has}. These are read: {reads}")
    if any(kind.startswith(("aws_msk", "module")) for kind in kinds):
        source.warnings.append(f"{source.name}: {amazon_msk.DEFAULTS_DEPEND}")
    parts = []
    for group in _grouped(clusters):
        nodes = [node for _, node, _ in group if node]
        stated = {key for node in nodes for key in node.settings}
        own = [resource for resource, _, _ in group]
        unused = _name(own[0]).startswith("aws_msk_configuration")  # of any cluster of the file
        tiered = any(
            text(one, "storage_mode") == "TIERED" for one in (resources if unused else own)
        )
        amazon = any("aws_msk" in _name(one) or text(one, "source") for one in own)
        missing = amazon_msk.defaults(stated, tiered=tiered) if amazon else {}
        stated_version = next((version for _, _, version in group if version), None)
        parts.append(
            Part(
                shape="terraform",
                cluster=_name(group[0][0]) if len(clusters) > len(group) else "",
                kafka=amazon_msk.release(stated_version),
                mode=amazon_msk.mode(stated_version) if amazon else None,
                nodes=tuple(replace(node, settings={**missing, **node.settings}) for node in nodes),
            )
        )
    if len(parts) == 1:
        return replace(parts[0], topics=tuple(topics))
    return Part(shape="terraform", topics=tuple(topics), others=tuple(parts))


def _grouped(
    found: Sequence[tuple[Block, Node | None, Given | None]],
) -> list[list[tuple[Block, Node | None, Given | None]]]:
    """Return the resources of each cluster: itself, and the configurations to which it refers.

    The only configuration of a file belongs to its only cluster.
    """
    configurations = [one for one in found if _name(one[0]).startswith("aws_msk_configuration")]
    groups = [[one] for one in found if one not in configurations]
    for one in configurations:
        homes = [group for group in groups if f"{_name(one[0])}." in _texts(group[0][0])]
        if not homes and len(configurations) == len(groups) == 1:
            homes = groups
        for home in homes:
            home.append(one)
        if not homes:
            groups.append([one])
    return groups


def _texts(node: object) -> str:
    """Return all values of a block."""
    if isinstance(node, dict | list):
        return " ".join(_texts(one) for one in (node.values() if isinstance(node, dict) else node))
    return str(node)


#: Files of a module that have variables or locals.
_DECLARES = re.compile(r"(?m)^\s*(variable|locals)\b")
#: Files of values that Terraform reads by itself, in this order.
_VALUES = re.compile(r"(?P<first>terraform\.tfvars(\.json)?)|.+\.auto\.tfvars(\.json)?")
#: More files than a module has.
_MOST_FILES = 200


#: What a map may have that is not resolved, of a topic or of brokers.
_OPEN = dict.fromkeys((*OPEN_OF_TOPICS, *OPEN_OF_BROKERS))


def _scope(source: Source, root: Block) -> Scope:
    """Return the variables with their defaults or values, and the locals of a module."""
    own, names = PurePath(source.name).name, sorted(set(source.names_beside()))[:_MOST_FILES]

    def text_of(name: str) -> Text | None:
        content = source.beside(name)
        file = str(PurePath(source.name).parent / name)
        return None if content is None else Text.at(content, 1, file=file)

    def beside(name: str) -> Block:
        text = text_of(name) or Text.at("", 1)
        return _body(str(text), text.file, is_json=name.endswith(".json"))

    variables, local = Block(), Block()
    declaring = [one for one in names if one.endswith(".tf") and one != own]
    module = [beside(one) for one in declaring if _DECLARES.search(source.beside(one) or "")]
    for body in (*module, root):
        for variable in items(body, "variable"):
            if variable["labels"] and "default" in variable:
                variables[str(variable["labels"][0])] = variable["default"]
        for named in items(body, "locals"):
            local.update({key: value for key, value in named.items() if key != "labels"})
    for match in sorted(filter(None, map(_VALUES.fullmatch, names)), key=_in_order):
        variables.update(beside(match[0]))
    return Scope({"var": variables, "local": local}, unknown=tuple(_OPEN), beside=text_of)


def _in_order(values: re.Match[str]) -> tuple[bool, str]:
    return values["first"] is None, values[0]


@lru_cache(maxsize=_MOST_FILES)
def _body(text: str, file: str, *, is_json: bool) -> Block:
    """Return the content of a file of the module; empty if it is not legal."""
    try:
        body = (
            block(next(iter(documents(text, file, [])), None)) if is_json else Reader(text).body()
        )
        name_file(body, file)
    except (RecursionError, NotYamlError):
        return Block()
    return body


def _repeated(resource: Block, scope: Scope) -> list[Block]:
    """Return a resource with the values of its expressions, once for each entry of `for_each`."""
    entries = scope.resolved(resource.get("for_each"))
    if isinstance(entries, Block):
        each = [(Text.at(key, entries.lines.get(key, 1)), one) for key, one in entries.items()]
    elif isinstance(entries, list):
        each = [(one, one) for one in entries if isinstance(one, Text)]
    else:
        return [scope.resolved(resource)]
    return [scope.with_each(key, value).resolved(resource) for key, value in each]


def _count(source: Source, resource: Block, *names: str) -> Given | None:
    for name in names:
        if value := text(resource, name):
            return next(iter(source.settings({name: value}).values()), None)
    return None


def _config(
    resource: Block, name: str, unknown: tuple[str, ...] = OPEN_OF_TOPICS
) -> dict[str, Text]:
    """Return a map, or the attributes of a block, with dots in its names.

    unknown: the settings that are open if something else fills it.
    """
    stated = resource.get(name)
    dynamic = [one for one in items(resource, "dynamic") if name in items(one, "labels")]
    if dynamic or (isinstance(stated, Text) and stated):
        line = dynamic[0].line if dynamic else resource.lines.get(name, resource.line)
        filled_by = Text.at(stated if isinstance(stated, Text) else f"${{dynamic {name}}}", line)
        return dict.fromkeys(unknown, filled_by)
    nested = items(resource, name)
    config = nested[0] if nested else block(resource, name)
    others = _OPEN.keys() - {*unknown}  # of the other kind, which a map that is not known has, too
    return {
        key.replace("_", ".") if "." not in key else key: value
        for key, value in flat(config).items()
        if not key.startswith("labels") and not (key in others and unresolved(value))
    }


def _topic(source: Source, resource: Block) -> Topic:
    name = text(resource, "topic_name") or text(resource, "name") or text(resource, "topic_id")
    return Topic(
        name=str(name or ""),
        partitions=_count(source, resource, "partitions", "partitions_count", "partition_count"),
        replication_factor=_count(source, resource, "replication_factor", "replication"),
        settings=source.settings(_config(resource, "config") or _config(resource, "configs")),
    )


def _confluent_topic(source: Source, resource: Block) -> Topic:
    """Read a topic of Confluent Cloud, where every topic has three replicas."""
    topic = _topic(source, resource)
    origin = Default("Confluent Cloud")
    return replace(
        topic,
        replication_factor=Given("3", origin),
        settings={"min.insync.replicas": Given("2", origin), **topic.settings},
    )


_TOPICS: Mapping[str, Callable[[Source, Block], Topic]] = {
    **dict.fromkeys(("kafka_topic", "aiven_kafka_topic", "google_managed_kafka_topic"), _topic),
    "confluent_kafka_topic": _confluent_topic,
}
_Cluster = tuple[Node | None, Given | None]


def _name(resource: Block) -> str:
    return ".".join(map(str, items(resource, "labels")))


def _properties(stated: Text) -> dict[str, Text]:
    if unresolved(stated):
        return dict.fromkeys(OPEN_OF_BROKERS, stated)
    pairs = parse(str(stated), stated.line)
    return {key: Text.at(one, one.line, file=stated.file) for key, one in pairs.items()}


def _msk_configuration(source: Source, resource: Block) -> _Cluster:
    properties = text(resource, "server_properties")
    pairs = _properties(properties) if properties else {}
    node = Node(name=_name(resource), settings=source.settings(pairs)) if pairs else None
    stated = items(resource, "kafka_versions")
    version = _count(source, resource, "kafka_version")
    if len(stated) == 1 and isinstance(stated[0], Text):
        version = next(iter(source.settings({"kafka_versions": stated[0]}).values()), None)
    return node, version


def _msk_cluster(source: Source, resource: Block) -> _Cluster:
    stated = _count(source, resource, "number_of_broker_nodes")
    count = source.count(stated.value, stated.source) if stated else None
    return Node(name=_name(resource), count=count), _count(source, resource, "kafka_version")


def _module(source: Source, resource: Block) -> _Cluster:
    """Read a module for MSK: of terraform-aws-modules, or of Cloud Posse."""
    node, version = _msk_cluster(source, resource)
    configuration, _ = _msk_configuration(source, resource)
    settings = configuration.settings if configuration else {}
    for name in ("configuration_server_properties", "properties"):
        settings = {**settings, **source.settings(_config(resource, name, OPEN_OF_BROKERS))}
    return replace(node, settings=settings) if node else None, version


def _aiven(source: Source, resource: Block) -> _Cluster:
    user = next(iter(items(resource, "kafka_user_config")), Block())
    pairs = _config(user, "kafka", OPEN_OF_BROKERS)
    return (
        Node(name=_name(resource), settings=source.settings(pairs)) if pairs else None,
        _count(source, user, "kafka_version"),
    )


_CLUSTERS: Mapping[str, Callable[[Source, Block], _Cluster]] = {
    "aws_msk_configuration": _msk_configuration,
    "aws_msk_cluster": _msk_cluster,
    "module": _module,
    "aiven_kafka": _aiven,
}
_EXAMPLE = """\
resource "kafka_topic" "orders" {
  name               = "orders"
  replication_factor = 3
  partitions         = 6
  config = {
    "min.insync.replicas" = "2"
  }
}
"""
FORMAT = Format(
    name="Terraform",
    order=110,
    reads="topics (`kafka_topic`, Aiven, Confluent Cloud, Google); Amazon MSK with its modules, "
    "Aiven",
    patterns=("*.tf", "*.tfvars"),
    mentions="kafka|msk",
    examples={"topics.tf": _EXAMPLE},
    read=read,
    makes_brokers=True,
)
