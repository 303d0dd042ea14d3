"""The values of Terraform's expressions: variables, locals, `each`, and some functions of maps.

What cannot be resolved stays a placeholder, such as `${local.settings}`, and so has no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from ackproof.own_config.hcl import Call
from ackproof.own_config.tree import Block, Text

_REFERENCE = re.compile(r"\$\{((?:var|local|each)(?:\.[\w-]+|\[[^\]]*\])+)\}")
_STEP = re.compile(r"\[([^\]]*)\]|([\w-]+)")
#: More than any module has; a local that refers to itself has no end.
_DEEPEST = 30


class Scope:
    """What expressions refer to: `var`, `local`, `each`.

    unknown: the settings that are open if a map of settings cannot be resolved. beside: returns a
    file of the module.
    """

    def __init__(
        self,
        roots: Mapping[str, Block],
        *,
        unknown: tuple[str, ...],
        beside: Callable[[str], Text | None],
    ) -> None:
        self._roots = roots
        self._unknown = unknown
        self._beside = beside
        #: What each path refers to, so that a local with many references is resolved once; None
        #: also while it is being resolved, for a local that refers to itself.
        self._known: dict[str, Any] = {}

    def with_each(self, key: Text, value: object) -> Scope:
        each = Block(key.line)
        each.update({"key": key, "value": value})
        return Scope({**self._roots, "each": each}, unknown=self._unknown, beside=self._beside)

    def resolved(self, node: Any, depth: int = 0) -> Any:
        """Return a copy of a tree with the values of its expressions."""
        if depth > _DEEPEST:
            return node
        if isinstance(node, Block):
            copy = Block(node.line)
            copy.update({key: self.resolved(one, depth + 1) for key, one in node.items()})
            copy.lines = dict(node.lines)
            return copy
        if isinstance(node, list):
            return [self.resolved(one, depth + 1) for one in node]
        if isinstance(node, Call):
            arguments = [self.resolved(one, depth + 1) for one in node.arguments]
            value = self._called(node, arguments, depth)
            return node if value is None else value
        return self._text(node, depth) if isinstance(node, Text) else node

    def open(self, placeholder: Text) -> Block:
        """Return the settings that a map may have which cannot be resolved."""
        block = Block(placeholder.line)
        block.update(dict.fromkeys(self._unknown, placeholder))
        return block

    def _text(self, value: Text, depth: int) -> Any:
        if whole := _REFERENCE.fullmatch(value):
            found = self._found(whole[1], depth)
            if isinstance(found, Text):
                return Text.at(str(found), value.line, file=value.file)
            return value if found is None else found

        def put(match: re.Match[str]) -> str:
            found = self._found(match[1], depth)
            return str(found) if isinstance(found, Text) else match[0]

        filled = _REFERENCE.sub(put, value)
        return Text.at(filled, value.line, block=value.block, file=value.file)

    def _found(self, path: str, depth: int) -> Any:
        """Return what a path refers to, resolved; None if it is not known."""
        if path not in self._known:
            self._known[path] = None
            self._known[path] = self._followed(path, depth)
        return self._known[path]

    def _followed(self, path: str, depth: int) -> Any:
        first, *steps = _steps(path)
        node: Any = self._roots.get(first)
        for step in steps:
            node = self.resolved(node, depth + 1) if isinstance(node, Text) else node
            node = node.get(step) if isinstance(node, Block) else None
        value = None if node is None else self.resolved(node, depth + 1)
        return None if isinstance(value, Text) and unresolved(value) else value

    def _is_missing(self, value: Any, depth: int) -> bool:
        """Whether a value refers to an entry that its map, which is known, does not have."""
        reference = _REFERENCE.fullmatch(value) if isinstance(value, Text) else None
        if reference is None:
            return False
        *path, last = _steps(reference[1])
        parent = self._found(".".join(path), depth) if len(path) > 1 else None
        return isinstance(parent, Block) and last not in parent

    def _called(self, call: Call, arguments: list[Any], depth: int) -> Any:
        """Return the value of a call; None if it is not known."""
        match call.function, arguments:
            case "merge", _:
                value: Any = self._merged(arguments)
            case "concat", _ if all(isinstance(one, list) for one in arguments):
                value = [*chain.from_iterable(arguments)]
            case "tomap" | "tolist" | "toset" | "tostring" | "tonumber" | "tobool", [only]:
                value = only
            case "try", _:
                kept = (one for one in arguments if not self._is_missing(one, depth))
                value = next(kept, None)
            case "lookup", [Block() as entries, Text() as key, *default]:
                value = entries.get(str(key), default[0] if default else None)
            case "file", [Text() as name]:
                value = self._beside(name.replace("${path.module}/", ""))
            case _:
                value = None
        return None if isinstance(value, Text) and unresolved(value) else value

    def _merged(self, arguments: list[Any]) -> Block:
        """Return the maps of `merge` as one; of a map that is not known, the settings are open."""
        merged = Block(1)
        for one in arguments:
            block = self.open(one) if isinstance(one, Text) and one else one
            if isinstance(block, Block):
                merged.update(block)
                merged.lines.update(block.lines)
        return merged


def _steps(path: str) -> list[str]:
    return [quoted or plain for quoted, plain in _STEP.findall(path)]


def unresolved(value: Text) -> bool:
    """Whether a value is an expression that was not resolved."""
    return bool(re.fullmatch(r"\$\{.*\}", value, re.DOTALL))


def name_file(node: object, file: str) -> None:
    """Enter the file in all texts of a tree."""
    if isinstance(node, Text):
        node.file = file
    if isinstance(node, Call):
        node = node.arguments
    for one in node.values() if isinstance(node, Block) else node if isinstance(node, list) else ():
        name_file(one, file)
