"""Applications with Micronaut."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ackproof.own_config import applications
from ackproof.own_config.applications import Framework, names_kafka, relaxed
from ackproof.own_config.clients import client, clients
from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.tree import Text

_MICRONAUT = re.compile(r"kafka\.(?P<kind>producer|consumer)s\.(?P<name>[^.]+)\.(?P<key>.+)")


def _clients(source: Source, pairs: Mapping[str, Text]) -> Part | None:
    """Return the clients of Micronaut; the other clients inherit the settings of `default`."""
    common: dict[str, Text] = {}
    named: dict[tuple[str, str], dict[str, Text]] = {}
    for key, value in pairs.items():
        if match := _MICRONAUT.fullmatch(key):
            own = named.setdefault((match["kind"], match["name"]), {})
            own[match["key"].replace("-", ".")] = value
        elif key.startswith("kafka."):
            common[key.removeprefix("kafka.").replace("-", ".")] = value
    if not named:
        return client(source, common, framework="Micronaut", library="java", shape="micronaut")
    channels = {
        (kind, "" if name == "default" else name): {
            **common,
            **(named.get((kind, "default"), {}) if name != "default" else {}),
            **own,
        }
        for (kind, name), own in named.items()
    }
    return clients(source, channels, framework="Micronaut", shape="micronaut")


def recognises(source: Source, pairs: Mapping[str, Text]) -> bool:
    keys = [relaxed(key) for key in pairs]
    if any(re.match(r"kafka\.(producers|consumers)\.", key) for key in keys):
        return True
    return names_kafka(source, pairs) and any(key.startswith("micronaut.") for key in keys)


def read(source: Source) -> Part | None:
    """Read an application of Micronaut."""
    return applications.read(source, Framework(recognises=recognises, clients=_clients))


_EXAMPLE = """\
micronaut:
  application:
    name: orders
kafka:
  producers:
    default:
      acks: all
"""
FORMAT = Format(
    name="Micronaut",
    order=150,
    reads="`kafka.producers`, `kafka.consumers`",
    patterns=("*.yml", "*.yaml", "*.properties"),
    mentions="kafka",
    examples={"application.yml": _EXAMPLE},
    read=read,
)
