"""Refuses YAML that is short to write and long to work through: aliases, and endless numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Keys and values, counted as often as aliases repeat them. A validated node takes some 50 µs.
MOST_NODES = 100_000

#: The most digits of a whole number. Python converts no text of more than 4,300 to a number.
MOST_DIGITS = 400

_DIGITS = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")
_TOO_LARGE = 10**MOST_DIGITS


def problem(document: Any) -> str:
    """Return why a YAML document is not to be validated; '' if nothing is against it."""
    walk = _Walk()
    nodes = walk.nodes(document)
    if walk.problem:
        return walk.problem
    if nodes <= MOST_NODES:
        return ""
    if nodes == math.inf:
        return "an alias stands inside what its anchor names, which has no end: remove the alias"
    return (
        f"with every alias replaced it has {nodes:,} keys and values, and {MOST_NODES:,} is the "
        "most: repeat less"
    )


class _Walk:
    """Counts nodes; looks at each mapping and list once, however many aliases lead to it."""

    def __init__(self) -> None:
        self.problem = ""
        #: By identity. A collection that is being counted has no end: inside it is an alias of it.
        self._known: dict[int, float] = {}

    def nodes(self, node: Any) -> float:
        """Return the number of nodes in a node, itself included; infinite if it holds itself."""
        if not isinstance(node, Mapping | list):
            self._check(node)
            return 1
        known = self._known.get(id(node))
        if known is not None:
            return known
        self._known[id(node)] = math.inf
        count = 1 + sum(map(self.nodes, _inner(node)))
        self._known[id(node)] = count
        return count

    def _check(self, value: object) -> None:
        if isinstance(value, str):
            too_long = _DIGITS.search(value) is not None
        else:
            too_long = isinstance(value, int) and abs(value) >= _TOO_LARGE
        if too_long:
            self.problem = f"a number in it has more than {MOST_DIGITS} digits: write a smaller one"


def _inner(node: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
    return [*node.keys(), *node.values()] if isinstance(node, Mapping) else list(node)
