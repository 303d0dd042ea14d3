"""What an audit is asked: a configuration without what only names its origin.

Files that say the same, or the same under the rules of a version, are one question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ackproof.own_config.configuration import Client, FileLine, OfBrokers, OwnConfig, Running


def question(own: OwnConfig) -> OwnConfig:
    """Return a configuration without its files, with clients that are called by their position.

    The two have the same answers, but for these names.
    """
    return replace(
        own,
        cluster="",
        read=(),
        refused=(),
        unread=(),
        warnings=(),
        stated=(),
        asked=frozenset(),
        producers=_numbered("producer", own.producers),
        consumers=_numbered("consumer", own.consumers),
    )


def _numbered(kind: str, clients: tuple[Client, ...]) -> tuple[Client, ...]:
    names = {one.name: f"{kind} {number}" for number, one in enumerate(clients)}
    return tuple(
        replace(one, name=f"{kind} {number}", channel="", replaces=names.get(one.replaces, ""))
        for number, one in enumerate(clients)
    )


def key(own: OwnConfig) -> str:
    """Return what decides about the answers to a question: every value, but no line of a file."""
    return repr(_content(own))


def _content(value: Any) -> object:
    if isinstance(value, FileLine | Running | OfBrokers):
        return type(value).__name__
    if is_dataclass(value):
        return tuple(_content(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, Mapping):
        return sorted((name, _content(one)) for name, one in value.items())
    return [*map(_content, value)] if isinstance(value, tuple) else value
