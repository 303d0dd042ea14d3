"""Values that take the place of a scenario file's, from the command line or a user's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ackproof.errors import ScenarioError, shown
from ackproof.scenario import document_size
from ackproof.scenario.matrix import configured, key_path, nested
from ackproof.scenario.types import YamlPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Replacements of values of a scenario document."""

    #: Values that replace those of the file, before the matrix; None removes a key.
    replaced: Mapping[YamlPath, Any] = field(default_factory=dict)
    #: Keys that are merged into every configuration, after the matrix.
    merged: Mapping[str, Any] = field(default_factory=dict)
    #: Who said so, for messages: `server.properties:4`, `--set workload.rate`.
    sources: Mapping[YamlPath, str] = field(default_factory=dict)

    def on_file(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a file's document with `replaced`."""
        changed = dict(document)
        for path, value in self.replaced.items():
            node: dict[Any, Any] = changed
            for part in path[:-1]:
                node[part] = dict(node.get(part) or {})
                node = node[part]
            if value is None:
                node.pop(path[-1], None)
            else:
                node[path[-1]] = value
        return changed

    def on_configuration(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of one configuration with `merged`."""
        return configured(document, self.merged)

    def source_of(self, path: YamlPath) -> str:
        """Return who set the value at `path`, or what is above it; '' if it is the file's."""
        ends = (path[:length] for length in range(len(path), 0, -1))
        return next((self.sources[end] for end in ends if end in self.sources), "")


#: Decides on the overrides of a file from its document.
Overriding = Callable[[Mapping[str, Any]], Overrides]


def none(document: Mapping[str, Any]) -> Overrides:
    """Override nothing."""
    return Overrides()


def from_assignments(assignments: list[str], option: str) -> Overrides:
    """Return the overrides of `--set KEY=VALUE`; values are YAML. Raises ScenarioError."""
    merged: dict[str, Any] = {}
    sources: dict[YamlPath, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(
                f"{option} {text}: it must be KEY=VALUE",
                hint=f"For example: {option} workload.settings.acks=1",
            )
        parts = key_path(key.strip())
        if parts[0] in ("version", "matrix"):
            raise ScenarioError(f"{option} {text}: {parts[0]} cannot be set")
        try:
            plain = YAML(typ="safe").load(StringIO(value))
        except (YAMLError, RecursionError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise ScenarioError(f"{option} {shown(text)}: not a YAML value: {reason}") from None
        if problem := document_size.problem(plain):
            raise ScenarioError(f"{option} {shown(text)}: {problem}")
        merged = configured(merged, nested(parts, plain))
        sources[tuple(parts)] = f"{option} {key.strip()}"
    return Overrides(merged=merged, sources=sources)


def joined(one: Overrides, other: Overrides) -> Overrides:
    """Return both; where they differ, `other` wins."""
    return Overrides(
        replaced={**one.replaced, **other.replaced},
        merged=configured(one.merged, other.merged),
        sources={**one.sources, **other.sources},
    )
