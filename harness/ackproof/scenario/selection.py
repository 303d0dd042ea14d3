"""The configurations of a scenario file or folder that a command uses, and warnings about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from ackproof.errors import AckproofError, ScenarioError
from ackproof.kafka_versions import numbers, other_rules
from ackproof.scenario import changes
from ackproof.scenario.changes import Overrides, Overriding
from ackproof.scenario.documents import FileLines
from ackproof.scenario.loader import Configured, load_all
from ackproof.scenario.removal import removal_warnings
from ackproof.scenario.types import YamlPath
from ackproof.scenario.validation import warnings

T = TypeVar("T")

#: Number of names that a message lists.
_LISTED = 8


def share(items: Sequence[T], shard: str) -> list[T]:
    """Return the items of a shard such as `2/5`; an empty text means all items.

    Sizes of shards differ by at most 1. Raises ScenarioError for any other text.
    """
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", shard or "1/1")
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ScenarioError(
            f"{shard!r} is not a shard",
            hint="Write I/N with I from 1 to N: 2/5 is the second of five shards.",
        )
    return list(items[int(match[1]) - 1 :: int(match[2])])


def check_kafka(version: str) -> None:
    """Raise ScenarioError if ackproof cannot run this version; '' is the default."""
    if version:
        try:
            numbers(version)
        except ValueError as error:
            raise ScenarioError(f"--kafka: {error}") from None


def select(
    path: Path,
    *,
    note: Callable[[str], None],
    warn: Callable[[Sequence[str]], None],
    shard: str = "",
    arm: str = "",
    kafka: str = "",
    overriding: Overriding = changes.none,
    skipped: bool = False,
) -> list[Configured]:
    """Return the configurations that have the name `arm` and the version `kafka`, in this shard.

    If no configuration has the version, all of them get it. Cases with the key `skip` are left
    out, with a note, unless `skipped`.

    Raises ScenarioError if nothing is selected, AckproofError if all is skipped.
    """
    check_kafka(kafka)
    known: dict[tuple[str, str], None] = {}

    def wanted(name: str, version: str) -> bool:
        known[name, version] = None
        return arm in ("", name) and kafka in ("", version)

    selected = load_all(path, overriding, wanted)
    if kafka and kafka not in [version for _, version in known]:
        had = ", ".join(dict.fromkeys(version for _, version in known))
        note(f"{path}: written for Kafka {had}, used with {kafka}")
        of_version = _with_version(path, kafka, overriding)
        selected = [one for one in of_version if arm in ("", one.name)]
    if not selected:
        names = [f"{name} ({version})" for name, version in known]
        more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        raise ScenarioError(
            f"{path}: no configuration is {' and '.join(filter(None, (arm, kafka)))}",
            hint=f"Its configurations: {', '.join(names[:_LISTED])}{more}.",
        )
    warn(warnings_of(selected))
    if skipped:
        return selected
    for file, reason in sorted({(one.path, one.skip) for one in selected if one.skip}):
        note(f"{file}: skipped: {reason}")
    every = [one for one in selected if not one.skip]
    if not every:
        raise AckproofError(f"{path}: nothing to run: every configuration is skipped")
    configurations = share(every, shard)
    if not configurations:
        raise ScenarioError(
            f"--shard {shard}: this shard is empty, since there are only {len(every)} "
            "configurations",
            hint=f"Use at most {len(every)} shards.",
        )
    return configurations


def _with_version(path: Path, kafka: str, overriding: Overriding) -> list[Configured]:
    """Return the distinct configurations with another Kafka version."""
    version = Overrides(merged={"kafka": kafka}, sources={("kafka",): "--kafka"})

    def with_version(document: Mapping[str, Any]) -> Overrides:
        return changes.joined(overriding(document), version)

    distinct: list[Configured] = []
    for configured in load_all(path, with_version):
        if all(configured.scenario != other.scenario for other in distinct):
            distinct.append(configured)
    return distinct


def warnings_of(configurations: Sequence[Configured]) -> list[str]:
    """Return the warnings about versions and, with file and line, about settings; each once.

    A warning that only some configurations of a file have is left out: the setting is meant for the
    other configurations.
    """
    doubtful = [
        (one, dict(chain(warnings(one.scenario), removal_warnings(one.scenario))))
        for one in configurations
    ]

    lines = {one.path: FileLines.read(one.path) for one, problems in doubtful if problems}

    def where(configured: Configured, key: YamlPath) -> str:
        path = configured.path
        return configured.overrides.source_of(key) or f"{path}:{lines[path].line(key)}"

    versions = (other_rules(configured.scenario.kafka) for configured in configurations)
    settings = (
        f"{where(configured, key)}: {'.'.join(map(str, key))}: {problem}"
        for configured, problems in doubtful
        for key, problem in problems.items()
        if all(key in others for other, others in doubtful if other.path == configured.path)
    )
    return list(dict.fromkeys(filter(None, (*versions, *settings))))
