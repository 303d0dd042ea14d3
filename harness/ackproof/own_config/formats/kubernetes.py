"""Resources of Kubernetes, or a part of one: containers with env, ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ackproof.own_config import environment
from ackproof.own_config.commands import topics
from ackproof.own_config.configuration import Count, Holder
from ackproof.own_config.containers import Containers, containers, embedded, named_values
from ackproof.own_config.formats import debezium, micronaut, quarkus, spring
from ackproof.own_config.formats.properties import classify
from ackproof.own_config.names import is_stated
from ackproof.own_config.parts import Format, Mount, Mounts, Part, RefusalError, Source, together
from ackproof.own_config.tree import (
    Block,
    NotYamlError,
    Text,
    block,
    items,
    mappings,
    text,
)

_COUNTED = ("StatefulSet", "Deployment", "ReplicaSet", "StatefulSetSpec")


def read(source: Source) -> Part | None:
    """Read Kubernetes' resources, or a part of one: containers with env, ConfigMaps."""
    found = Containers(source)
    resources = [
        resource
        for root in source.documents
        if isinstance(root, Block) and "services" not in root
        for resource in (items(root, "items") if root.get("kind") == "List" else [root])
    ]
    maps = {
        str(text(one, "metadata", "name")): _data(one)
        for one in resources
        if str(text(one, "kind")) in _DATA
    }
    refused: list[RefusalError] = []
    for resource in resources:
        _resource(found, resource, maps, refused)
    part = found.part("kubernetes")
    if part.empty and refused:
        raise refused[0]
    return None if part.empty else part


#: Where resources with files or variables have them; the last one counts.
_DATA = {"ConfigMap": ("data",), "Secret": ("data", "stringData")}


def _data(resource: object) -> Block:
    """Return the files and variables of a ConfigMap or a Secret."""
    found = Block(block(resource).line)
    for place in _DATA[str(text(resource, "kind"))]:
        found.update(block(resource, place))
    return found


def _files(found: Containers, resource: object, refused: list[RefusalError]) -> None:
    """Add what the files and variables of a ConfigMap or a Secret describe."""
    data = {
        key: value
        for key, value in _data(resource).items()
        if isinstance(value, Text) and not key.startswith("_")  # such as Knative's `_example`
    }
    for key, value in data.items():
        try:
            found.add(_inside(found.source, value, key))
        except (NotYamlError, RefusalError) as error:
            line = error.line if isinstance(error, NotYamlError) and error.line else value.line
            problem = f"{key} is not used: {error}"
            found.source.warnings.append(f"{found.source.name}:{line}: {problem}")
            refused.append(RefusalError(f"{key} (line {line}): {error}"))
    if settings := environment.broker_settings(data, "", found.source):
        name = str(text(resource, "metadata", "name") or "ConfigMap")
        node = environment.node(name, settings, found.source, image="", count=None)
        found.add(Part(shape="", nodes=(node,)))


def _resource(
    found: Containers, resource: object, maps: Mapping[str, Block], refused: list[RefusalError]
) -> None:
    kind = str(text(resource, "kind") or "")
    if kind in _DATA:
        _files(found, resource, refused)
        return
    replicas = text(resource, "spec", "replicas") if kind in _COUNTED else None
    name = str(text(resource, "metadata", "name") or found.source.name)
    pods = {id(one): pod for pod in mappings(resource) for one in items(pod, "containers")}
    for container in containers(resource):
        variables = named_values(container, maps)
        image = text(container, "image")
        if variables or (image and kind):
            count = found.source.count(replicas, found.source.where(replicas)) if replicas else None
            if count is None and kind in _COUNTED:
                count = Count(1, found.source.at(block(resource).line))
            pod = pods.get(id(container))
            mounts = _mounts(found.source, block(resource), pod, container) if pod else None
            found.container(name, image, variables, container, count=count, mounts=mounts)
        found.topics(topics(found.source, container))


#: Volumes of a pod that have files of a configuration, and those that end with the pod.
_OF_FILES = frozenset({"configMap", "secret", "projected", "downwardAPI"})
_OF_POD = ("emptyDir", "ephemeral")


def _mounts(source: Source, resource: Block, pod: Block, container: Block) -> Mounts:
    """Return what a container of a pod mounts."""
    volumes = {text(one, "name"): block(one) for one in items(pod, "volumes")}
    claims = {
        text(one, "metadata", "name") for one in items(resource, "spec", "volumeClaimTemplates")
    }
    found = []
    for entry in items(container, "volumeMounts"):
        name, path = text(entry, "name"), text(entry, "mountPath")
        volume = volumes.get(name, Block())
        if name is None or path is None or _OF_FILES & volume.keys():
            continue
        ends = next((key for key in _OF_POD if key in volume), "")
        line = volume.lines[ends] if ends else path.line
        held = Holder.VOLUME if name in claims or len(volume) > 1 else None
        found.append(
            Mount(
                path=str(path),
                holder=Holder.POD if ends else held,
                setting=f"volumes.{name}",
                value=ends or "a volume",
                source=source.at(line),
            )
        )
    return Mounts(
        mounts=tuple(found),
        setting="volumeMounts",
        source=source.at(container.line),
        restart_keeps=False,
    )


def _inside(source: Source, value: Text, name: str) -> Part | None:
    """Read a file in a ConfigMap or a Secret: settings, JSON, or the YAML of an application.

    Raises RefusalError, NotYamlError.
    """
    of_json = name.endswith(".json") or value.lstrip()[:1] == "{"
    if not (of_json or (name.endswith((".yml", ".yaml")) and "\n" in value)):
        return embedded(source, value, name)
    # Each line of a block has its number in the file; a text in quotes stands in one line.
    lines, line = ("\n" * value.line, 0) if value.block else ("", value.line)
    inside = replace(source, text=f"{lines}{value}", line=line)
    if of_json:
        return _of_json(inside) if inside.is_tree else None
    frameworks = (framework.read(inside) for framework in (spring, quarkus, micronaut, debezium))
    return next((part for part in frameworks if part), None)


def _of_json(source: Source) -> Part | None:
    """Read the settings of JSON, such as those of a connector. Raises RefusalError."""
    parts = []
    for node in (one for root in source.documents for one in mappings(root)):
        pairs = {key: value for key, value in node.items() if isinstance(value, Text)}
        if any(map(is_stated, pairs)) and (part := classify(source, pairs)):
            parts.append(part)
    return together("", parts) if parts else None


_EXAMPLE = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: orders
spec:
  template:
    spec:
      containers:
        - name: orders
          env:
            - name: SPRING_KAFKA_PRODUCER_ACKS
              value: "1"
"""
FORMAT = Format(
    name="Kubernetes",
    order=100,
    reads="brokers and applications in containers and lists of environment variables; "
    "ConfigMaps and Secrets with variables, properties or an application's YAML",
    patterns=("*.yml", "*.yaml", "*.json"),
    mentions="kafka|broker",
    examples={"deployment.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
