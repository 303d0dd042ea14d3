"""The name and the identity of a run's configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

#: Settings that a name without an arm always has, and those with the value that it leaves out.
_ALWAYS = ("acks", "min.insync.replicas")
_UNLESS = {
    "enable.idempotence": "true",
    "replication_factor": "3",
    "unclean.leader.election.enable": "false",
}

#: Parts of a scenario that are no settings of a configuration, or have a column of their own.
_NO_SETTINGS = ("name", "seed", "kafka", "expect", "case", "description")

#: A name lists at most this many settings of `--set` and own files; a digest replaces more.
_LISTED = 3


def configuration_name(
    arm: str, durability: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> str:
    """Return a name by which runs with different settings differ.

    `arm` is the name in the scenario's matrix, or empty; then the name consists of `durability`,
    the settings that decide about losses. `overrides` is the part of the scenario that `--set` or
    the user's files replaced.
    """
    shown = {key: _text(value) for key, value in durability.items()}
    own = {
        path: _text(value)
        for path, value in _leaves(overrides or {})
        if path[0] not in _NO_SETTINGS
        and (arm or path[-1] not in (*_ALWAYS, *_UNLESS, "assignment"))
    }
    name = arm
    if not arm:
        first = [key for key in _ALWAYS if key in shown]
        more = [
            key
            for key, usual in _UNLESS.items()
            if shown.get(key, usual) != usual
            and (key != "enable.idempotence" or shown.get("acks") in ("all", "-1"))
        ]
        name = ", ".join(f"{key}={shown[key]}" for key in first + more)
    if len(own) > _LISTED:
        return f"{name} with {len(own)} own settings ({digest(sorted(own.items()))[:6]})"
    if own:
        return f"{name} with {', '.join(f'{path[-1]}={value}' for path, value in own.items())}"
    return name


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
