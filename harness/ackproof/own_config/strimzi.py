"""Reads Strimzi's resources: `Kafka`, `KafkaNodePool` and `KafkaTopic`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from ackproof.errors import ScenarioError
from ackproof.own_config.settings import Given, OwnConfig
from ackproof.scenario.types import setting_text

_KINDS = ("Kafka", "KafkaNodePool", "KafkaTopic")


def is_resource(text: str) -> bool:
    """Whether a text is a Kubernetes resource."""
    return bool(re.search(r"^(apiVersion|kind):", text, re.MULTILINE))


def parse(text: str, name: str) -> OwnConfig:
    """Return what the resources of a file say. Raises ScenarioError if they are none of Strimzi."""
    try:
        resources = [one for one in YAML().load_all(text) if isinstance(one, Mapping)]
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{name}:{line}: not valid YAML: {error.problem}") from None
    except YAMLError as error:
        raise ScenarioError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    of_kind = {kind: [one for one in resources if one.get("kind") == kind] for kind in _KINDS}
    if not any(of_kind.values()):
        kinds = ", ".join(str(one.get("kind")) for one in resources) or "nothing"
        raise ScenarioError(f"{name}: it has {kinds}, and none of {', '.join(_KINDS)}")
    for kind in ("Kafka", "KafkaTopic"):
        if len(of_kind[kind]) > 1:
            names = ", ".join(str(_part(one, "metadata").get("name")) for one in of_kind[kind])
            raise ScenarioError(
                f"{name}: it has {len(of_kind[kind])} resources of the kind {kind} ({names})",
                hint="Put the one that you mean into a file of its own.",
            )
    kafka = _part(_spec(of_kind["Kafka"]), "kafka")
    topic = _spec(of_kind["KafkaTopic"])
    nodes = [_part(one, "spec") for one in of_kind["KafkaNodePool"]] or [kafka]
    return OwnConfig(
        kafka=str(kafka.get("version", "")),
        brokers=_sum(nodes, "broker", name),
        partitions=_count(topic, "partitions", name),
        replication_factor=_count(topic, "replicas", name),
        broker=_settings(kafka, name) if of_kind["Kafka"] else None,
        topic=_settings(topic, name) if of_kind["KafkaTopic"] else None,
    )


def _part(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = node.get(key)
    return found if isinstance(found, Mapping) else {}


def _spec(resources: list[Any]) -> Mapping[str, Any]:
    return _part(resources[0], "spec") if resources else {}


def _sum(nodes: list[Mapping[str, Any]], role: str, name: str) -> int | None:
    counts = [_count(one, "replicas", name) for one in nodes if role in one.get("roles", [role])]
    return sum(one or 0 for one in counts) or None


def _count(node: Mapping[str, Any], key: str, name: str) -> int | None:
    value = node.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        line = node.lc.key(key)[0] + 1 if hasattr(node, "lc") else 1
        raise ScenarioError(f"{name}:{line}: {key}: {value!r} is not a whole number from 1")
    return value


def _settings(node: Mapping[str, Any], name: str) -> dict[str, Given]:
    config = _part(node, "config")
    return {
        str(key): Given(setting_text(value), f"{name}:{config.lc.key(key)[0] + 1}")  # type: ignore[attr-defined]
        for key, value in config.items()
    }
