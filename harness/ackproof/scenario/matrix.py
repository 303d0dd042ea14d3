"""What a scenario's `matrix` compares, and how a configuration is made of the scenario.

Either names, each with what it sets differently, or a list of dimensions of which every combination
is compared. A dimension is such a mapping of names, or one key with its values::

    matrix:
      - workload.settings.acks: [1, all]
      - topics.orders.settings.min.insync.replicas: [1, 2]
      - no fault: {faults: []}
        kill the leader: {faults: [{fault: kill, target: leader of orders-0}]}

A key is a path with dots; all of it that follows `settings` is one setting's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.scenario.types import Setting, YamlPath

#: Keys that belong to the file, not to one of its configurations.
_FIXED = frozenset({"version", "name", "matrix"})


class MatrixError(Exception):
    """A matrix that is none; `place` leads to the line in the file."""

    def __init__(self, place: YamlPath, problem: str) -> None:
        super().__init__(f"{'.'.join(map(str, place))}: {problem}")
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One configuration: its name, what it sets differently, and where the file says so."""

    name: str
    changes: Mapping[str, Any]
    place: YamlPath


def entries(matrix: object) -> list[Entry]:
    """Return the configurations of a matrix, in its order; MatrixError if it is none."""
    if isinstance(matrix, Mapping) and matrix:
        return _named(matrix, ("matrix",))
    if isinstance(matrix, list) and matrix:
        return _combinations(matrix)
    raise MatrixError(
        ("matrix",), "it must map names of configurations to settings, or list dimensions"
    )


def _named(matrix: Mapping[str, Any], place: YamlPath) -> list[Entry]:
    found = []
    for name, changes in matrix.items():
        here = (*place, name)
        if not isinstance(changes, Mapping):
            raise MatrixError(here, "it must map keys to settings")
        if fixed := _FIXED & set(changes):
            key = min(fixed)
            raise MatrixError((*here, key), f"{key!r} cannot differ between configurations")
        found.append(Entry(name=str(name), changes=changes, place=here))
    return found


def _combinations(dimensions: Sequence[object]) -> list[Entry]:
    choices = [_dimension(one, ("matrix", index)) for index, one in enumerate(dimensions)]
    found = []
    for combination in itertools.product(*choices):
        changes: dict[str, Any] = {}
        for choice in combination:
            changes = configured(changes, choice.changes)
        name = ", ".join(choice.name for choice in combination)
        found.append(Entry(name=name, changes=changes, place=("matrix",)))
    return found


def _dimension(dimension: object, place: YamlPath) -> list[Entry]:
    if not isinstance(dimension, Mapping) or not dimension:
        raise MatrixError(place, "a dimension is one key with a list of values, or maps names")
    if not any(isinstance(value, list) for value in dimension.values()):
        return _named(dimension, place)
    if len(dimension) > 1:
        raise MatrixError(place, "a dimension has one key; begin another with '-'")
    [(key, values)] = dimension.items()
    if not values:
        raise MatrixError((*place, key), "it needs at least one value")
    parts = _path(str(key))
    if parts[0] in _FIXED:
        raise MatrixError((*place, key), f"{parts[0]!r} cannot differ between configurations")
    return [
        Entry(name=f"{parts[-1]}={_word(value)}", changes=_nested(parts, value), place=place)
        for value in values
    ]


def _path(key: str) -> list[str]:
    before, found, setting = key.partition(".settings.")
    return [*before.split("."), "settings", setting] if found else key.split(".")


def _nested(parts: Sequence[str], value: object) -> dict[str, Any]:
    node: Any = value
    for part in reversed(parts):
        node = {part: node}
    return dict(node)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def configured(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `document` with `changes` merged in: mappings key by key, everything else whole."""
    merged = dict(document)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = configured(old, value)
        else:
            merged[key] = value
    return merged


def varied(changes: Mapping[str, Any], prefix: str = "") -> dict[str, Setting]:
    """Return what a configuration changes, flat: last key names, longer ones where two clash.

    `expect` is left out: it is a wish, not a setting.
    """
    flat = {path: value for path, value in _leaves(changes) if path[0] != "expect"}
    lasts = [path[-1] for path in flat]
    return {
        prefix + (path[-1] if lasts.count(path[-1]) == 1 else ".".join(path)): _told(value)
        for path, value in flat.items()
    }


def _told(value: Any) -> Setting:
    """Return a value as a setting; of a list of faults, their names."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list):
        told = (one.get("fault", one) if isinstance(one, Mapping) else one for one in value)
        return ", ".join(map(str, told)) or "none"
    return str(value)


def _leaves(
    node: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value
