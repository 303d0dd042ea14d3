"""Env files with the variables of a Kafka image, or of an application."""

from __future__ import annotations

import re
from dataclasses import replace

from ackproof.own_config.containers import application
from ackproof.own_config.environment import broker_settings, node, variables_of
from ackproof.own_config.parts import Format, Part, Source


def read(source: Source) -> Part | None:
    """Read an env file with the variables of a Kafka image, or of an application."""
    significant = [
        line for line in source.lines if line.strip() and not line.lstrip().startswith("#")
    ]
    if not significant or not all(
        re.match(r"\s*(export\s+)?[A-Z_][A-Z0-9_]*=", line) for line in significant
    ):
        return None
    variables = variables_of(source)
    settings = broker_settings(variables, "", source)
    if settings:
        made = node(source.name, settings, source, image="", count=None)
        return Part(shape="env file", nodes=(made,))
    part = application(variables, source, "")
    return replace(part, shape="env file") if part else None


_EXAMPLE = """\
KAFKA_NODE_ID=1
KAFKA_MIN_INSYNC_REPLICAS=2
"""
FORMAT = Format(
    name="env files",
    order=120,
    reads="variables of images of Kafka (`KAFKA_…`) and of applications (`CONNECT_…`, "
    "`SPRING_KAFKA_…`)",
    patterns=("*.env", ".env*"),
    mentions="kafka|connect",
    examples={"kafka.env": _EXAMPLE},
    read=read,
)
