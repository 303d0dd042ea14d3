"""Selects one of several clients or profiles of a user's files (`--client`, `--profile`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TypeVar

from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import Client, OwnConfig, Topic

_Named = TypeVar("_Named", Client, Topic)


def selected(
    clusters: Sequence[OwnConfig], *, profile: str = "", client: str = "", required: bool = True
) -> tuple[OwnConfig, ...]:
    """Return the configurations with the clients of a profile, and only those of a name.

    A profile's clients and topics replace those that they change; what no profile changes stays.
    '' leaves out a selection. Raises ScenarioError if no file has the profile or the client, and
    that is required.
    """
    if profile:
        if required:
            _require("--profile", profile, "profile", profiles(clusters))
        clusters = [_of_profile(own, profile) for own in clusters]
    if client:
        found = [_having(own, client) for own in clusters]
        if required and not any(found):
            names = [one.name for own in clusters for one in _clients(own)]
            _require("--client", client, "client", names)
        clusters = [
            replace(
                own,
                producers=tuple(one for one in own.producers if one in having),
                consumers=tuple(one for one in own.consumers if one in having),
            )
            for own, having in zip(clusters, found, strict=True)
        ]
    return tuple(clusters)


def _require(option: str, value: str, kind: str, legal: Sequence[str]) -> None:
    """Raise ScenarioError for a name that no file has, with those that they have."""
    if value not in legal:
        names = ", ".join(dict.fromkeys(legal)) or "none"
        raise ScenarioError(f"{option} {value}: no file has this {kind}; they have: {names}")


def profiles(clusters: Iterable[OwnConfig]) -> list[str]:
    """Return the names of all profiles, in their order in the files."""
    of_clients = [one.profile for own in clusters for one in _clients(own)]
    of_topics = [one.profile for own in clusters for one in own.topics]
    return list(dict.fromkeys(filter(None, [*of_clients, *of_topics])))


def _clients(own: OwnConfig) -> tuple[Client, ...]:
    return (*own.producers, *own.consumers)


def _having(own: OwnConfig, client: str) -> list[Client]:
    """Return the clients of a name, else those that have it without folders or in their file."""
    exact = [one for one in _clients(own) if one.name == client]
    return exact or [
        one for one in _clients(own) if client in (PurePath(one.name).name, one.channel)
    ]


def _of_profile(own: OwnConfig, profile: str) -> OwnConfig:
    topics = (
        replace(one, name=one.replaces or one.name) if one.profile else one
        for one in _replacing(own.topics, profile)
    )
    return replace(
        own,
        topics=tuple(topics),
        producers=_replacing(own.producers, profile),
        consumers=_replacing(own.consumers, profile),
    )


def _replacing(every: tuple[_Named, ...], profile: str) -> tuple[_Named, ...]:
    replaced = {one.replaces for one in every if one.profile == profile}
    return tuple(
        one
        for one in every
        if one.profile == profile or (not one.profile and one.name not in replaced)
    )
