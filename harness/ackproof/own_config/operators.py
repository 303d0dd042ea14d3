"""What the resources of Kubernetes operators for Kafka have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ackproof.own_config.configuration import Count, Given, Topic
from ackproof.own_config.environment import version
from ackproof.own_config.formats.properties import classify
from ackproof.own_config.parts import (
    Part,
    RefusalError,
    Source,
    UnrecognisedError,
    refuse_template,
    together,
)
from ackproof.own_config.tree import Block, Text, block, flat, items, text


def resources_of(source: Source, group: str) -> list[Block]:
    found = []
    for root in source.documents:
        listed = items(root, "items") if text(root, "kind") == "List" else [root]
        found += [
            one
            for one in listed
            if isinstance(one, Block) and group in (text(one, "apiVersion") or "")
        ]
    return found


def name_of(resource: Block) -> str:
    return str(text(resource, "metadata", "name") or text(resource, "kind") or "")


def count_of(source: Source, node: Block, key: str, least: int) -> Given | None:
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


def nodes_of(source: Source, spec: Block, least: int) -> Count | None:
    """Return how many nodes a resource has. Raises RefusalError if it is not a whole number."""
    stated = count_of(source, spec, "replicas", least)
    return source.count(stated.value, stated.source) if stated else None


def whole(shape: str, parts: Sequence[Part], cluster: str, resources: Sequence[Block]) -> Part:
    """Return what an operator's resources describe. Raises RefusalError if that is nothing."""
    part = together(shape, parts, cluster=cluster)
    if part.empty:
        kinds = ", ".join(sorted({str(text(one, "kind")) for one in resources}))
        raise UnrecognisedError(f"resources of {shape} ({kinds}): not of brokers or topics")
    return part


def cluster_name(
    clusters: Sequence[Block], named: Iterable[Text | None], labelled: Sequence[Block] = ()
) -> str:
    """Return the cluster's name, else the name by which other resources refer to it.

    labelled: resources that are in the cluster's namespace.
    """
    names = [*map(name_of, clusters), *(str(name) for name in named if name)]
    spaces = (text(one, "metadata", "namespace") for one in clusters or labelled)
    space = next(filter(None, spaces), None)
    return "/".join(filter(None, (space, names[0]))) if names else ""


def stated_version(source: Source, spec: Block, *path: str) -> Given | None:
    """Return the version of Kafka that a key states; the last key names an image."""
    *named, image = path
    for key in named:
        if value := text(spec, key):
            return source.given(value)
    of_image = text(spec, *image.split("."))
    return version(of_image, source) if of_image else None


def topic_of(source: Source, resource: Block, replicas: str, config: str) -> Topic:
    spec = block(resource, "spec")
    partitions = "partitionCount" if "partitionCount" in spec else "partitions"
    name = text(spec, "topicName") or text(spec, "name") or text(resource, "metadata", "name")
    return Topic(
        name=str(name or ""),
        partitions=count_of(source, spec, partitions, 1),
        replication_factor=count_of(source, spec, replicas, 1),
        settings=source.settings(flat(block(spec, config))),
    )


def worker(source: Source, resource: Block, pairs: dict[str, Text]) -> Part | None:
    pairs.setdefault("config.storage.topic", Text.at("", resource.line))
    part = classify(replace(source, hint=""), pairs)
    return part.named(f"{source.name} ({name_of(resource)})") if part else None
