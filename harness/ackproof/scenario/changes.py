"""Changes to a scenario file: the key `matrix`, `--set`, and a user's own files.

A matrix maps names of configurations to the keys that they change. If it is a list of dimensions,
every combination is a configuration. A dimension is such a mapping, or one key with values::

    matrix:
      - workload.settings.acks: [1, all]
      - topics.orders.settings.min.insync.replicas: [1, 2]
      - no fault: {faults: []}
        kill the leader: {faults: [{fault: kill, target: leader of orders-0}]}

A key is a path with dots. Everything after `.settings.` is the name of one setting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ackproof.errors import ScenarioError, shown
from ackproof.scenario.documents import size_problem
from ackproof.scenario.types import Setting, YamlPath, padding, setting_text

#: Keys that are the same for all configurations of a file.
_FIXED = frozenset({"version", "name", "matrix"})

#: Maximum length of a configuration's name, which is part of the name of its run directory.
_LONGEST_NAME = 140

#: Maximum number of configurations of a file: each is a run of a minute or more.
_MOST = 1000


class MatrixError(Exception):
    def __init__(self, path: YamlPath, problem: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {problem}")
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One configuration: its name, the keys that it changes, and their path in the file."""

    name: str
    changes: Mapping[str, Any]
    path: YamlPath


def entries(matrix: object) -> list[Entry]:
    """Return the configurations of a matrix in its order. Raises MatrixError if it is illegal."""
    if isinstance(matrix, Mapping) and matrix:
        result = _named(matrix, ("matrix",))
    elif isinstance(matrix, list) and matrix:
        result = _combinations(matrix)
    else:
        raise MatrixError(
            ("matrix",),
            "it must map names of configurations to the keys that they change, or list dimensions",
        )
    names: set[str] = set()
    for entry in result:
        name = entry.name
        if not name or padding(name) or not name.isprintable():
            raise MatrixError(
                entry.path,
                f"{name[:40]!r} is no name of a configuration: write one line of printable "
                "characters without blanks around it",
            )
        if name in names:
            problem = f"two configurations have the name {name!r}: give each another one"
            raise MatrixError(entry.path, problem)
        names.add(name)
        if len(name) > _LONGEST_NAME:
            raise MatrixError(
                ("matrix",),
                f"the name {name[:40]!r}… has {len(name)} characters, and {_LONGEST_NAME} is the "
                "most",
            )
    return result


def _named(matrix: Mapping[str, Any], path: YamlPath) -> list[Entry]:
    result = []
    for name, changes in matrix.items():
        here = (*path, name)
        if not isinstance(changes, Mapping):
            raise MatrixError(
                here,
                f"the configuration {name!r} must map keys to values, such as "
                "{workload: {settings: {acks: 1}}}; the name of a configuration is its key",
            )
        if fixed := _FIXED & set(changes):
            key = min(fixed)
            raise MatrixError(
                (*here, key), f"{key!r} cannot differ between configurations: remove it"
            )
        result.append(Entry(name=str(name), changes=changes, path=here))
    return result


def _combinations(dimensions: Sequence[object]) -> list[Entry]:
    choices = [_dimension(one, ("matrix", index)) for index, one in enumerate(dimensions)]
    if (count := math.prod(map(len, choices))) > _MOST:
        raise MatrixError(
            ("matrix",),
            f"it has {count:,} configurations, and {_MOST:,} is the most: remove dimensions or "
            "values",
        )
    result = []
    for combination in itertools.product(*choices):
        changes: dict[str, Any] = {}
        for choice in combination:
            changes = configured(changes, choice.changes)
        name = ", ".join(choice.name for choice in combination)
        result.append(Entry(name=name, changes=changes, path=("matrix",)))
    return result


def _dimension(dimension: object, path: YamlPath) -> list[Entry]:
    if not isinstance(dimension, Mapping) or not dimension:
        raise MatrixError(
            path, "a dimension is one key with a list of values, or maps names to keys that change"
        )
    if not any(isinstance(value, list) for value in dimension.values()):
        return _named(dimension, path)
    if len(dimension) > 1:
        raise MatrixError(
            path,
            f"a dimension has one key, not {len(dimension)}: begin another with '-'",
        )
    [(key, values)] = dimension.items()
    if not values:
        raise MatrixError((*path, key), "a dimension needs at least one value")
    parts = key_path(str(key))
    if parts[0] in _FIXED:
        raise MatrixError(
            (*path, key), f"{parts[0]!r} cannot differ between configurations: remove it"
        )
    return [
        Entry(name=f"{parts[-1]}={setting_text(value)}", changes=nested(parts, value), path=path)
        for value in values
    ]


def key_path(key: str) -> list[str]:
    """Return the parts of a key with dots: all after `.settings.` is one part."""
    before, separator, setting = key.partition(".settings.")
    return [*before.split("."), "settings", setting] if separator else key.split(".")


def nested(parts: Sequence[str], value: object) -> dict[str, Any]:
    """Return a document in which the key of these parts has this value."""
    node: Any = value
    for part in reversed(parts):
        node = {part: node}
    return dict(node)


def configured(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `document` with `changes`: mappings are merged key by key, other values replaced."""
    merged = dict(document)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = configured(old, value)
        else:
            merged[key] = value
    return merged


def varied(changes: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the changes of a configuration by the last part of their keys.

    If two last parts are equal, the whole key is used. `expect` and `case` are left out.
    """
    flat = {path: value for path, value in _leaves(changes) if path[0] not in ("expect", "case")}
    lasts = [path[-1] for path in flat]
    return {
        path[-1] if lasts.count(path[-1]) == 1 else ".".join(path): _as_setting(value)
        for path, value in flat.items()
    }


def _as_setting(value: Any) -> Setting:
    """Return a value as a setting: for a list of faults, their names."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list):
        names = (one.get("fault", one) if isinstance(one, Mapping) else one for one in value)
        return ", ".join(map(str, names)) or "none"
    return str(value)


def _leaves(
    node: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Replacements of values of a scenario document."""

    #: Values that replace those of the file, before the matrix; None removes a key.
    replaced: Mapping[YamlPath, Any] = field(default_factory=dict)
    #: Keys that are merged into every configuration, after the matrix.
    merged: Mapping[str, Any] = field(default_factory=dict)
    #: The origin of a value, for messages: `server.properties:4`, `--set workload.rate`.
    sources: Mapping[YamlPath, str] = field(default_factory=dict)
    #: Replaced settings whose value is a default of the user's client.
    defaults: frozenset[YamlPath] = frozenset()

    def on_file(self, document: Mapping[str, Any]) -> dict[str, Any]:
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

    def document(self) -> dict[str, Any]:
        """Return the values as a part of a scenario document, without defaults of a client."""
        document: dict[str, Any] = {}
        for path, value in self.replaced.items():
            own = value
            if isinstance(value, Mapping):
                own = {key: v for key, v in value.items() if (*path, key) not in self.defaults}
            document = configured(document, nested([str(part) for part in path], own))
        return configured(document, self.merged)

    def source_of(self, path: YamlPath) -> str:
        """Return the origin of the value at `path` or of a parent; '' for the file."""
        ends = (path[:length] for length in range(len(path), 0, -1))
        return next((self.sources[end] for end in ends if end in self.sources), "")


#: Returns the overrides for the document of a file.
Overriding = Callable[[Mapping[str, Any]], Overrides]


def none(document: Mapping[str, Any]) -> Overrides:
    return Overrides()


def from_assignments(assignments: list[str]) -> Overrides:
    """Return the overrides of `--set KEY=VALUE`; values are YAML. Raises ScenarioError."""
    merged: dict[str, Any] = {}
    sources: dict[YamlPath, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(
                f"--set {text}: it must be KEY=VALUE",
                hint="For example: --set workload.settings.acks=1",
            )
        parts = key_path(key.strip())
        if parts[0] in ("version", "matrix"):
            raise ScenarioError(f"--set {text}: {parts[0]} cannot be set")
        try:
            plain = YAML(typ="safe").load(StringIO(value))
        except (YAMLError, RecursionError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise ScenarioError(f"--set {shown(text)}: not a YAML value: {reason}") from None
        if problem := size_problem(plain):
            raise ScenarioError(f"--set {shown(text)}: {problem}")
        merged = configured(merged, nested(parts, plain))
        sources[tuple(parts)] = f"--set {key.strip()}"
    return Overrides(merged=merged, sources=sources)


def joined(first: Overrides, other: Overrides) -> Overrides:
    """Merge two sets of overrides; `other` wins."""
    return Overrides(
        replaced={**first.replaced, **other.replaced},
        merged=configured(first.merged, other.merged),
        sources={**first.sources, **other.sources},
        defaults=first.defaults | other.defaults,
    )
