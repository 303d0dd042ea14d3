"""YAML and JSON as trees of texts, blocks and lists, in which every value has its line."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any
from warnings import catch_warnings

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_TAG = "tag:yaml.org,2002:"
#: More than any configuration has; aliases of aliases may grow without end.
_DEEPEST, _MOST_TEXTS = 50, 100_000


class NotYamlError(Exception):
    """The text is not YAML. line: where reading ended; 0 if unknown."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class Text(str):
    """A scalar as it is written; true and false in lower case, null as ''.

    line: counted from 1. block: whether it is a block scalar, whose text begins one line later.
    file: the file that has it; '' for the file that is being read.
    """

    __slots__ = ("block", "file", "line")
    line: int
    block: bool
    file: str

    @classmethod
    def at(cls, value: str, line: int, *, block: bool = False, file: str = "") -> Text:
        text = cls(value)
        text.line = line
        text.block = block
        text.file = file
        return text


class Block(dict[str, Any]):
    """A mapping. line: where it begins. lines: the line of each key."""

    line: int = 1

    def __init__(self, line: int = 1) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_JSON = re.compile(r"\s*(?:(?://[^\n]*|/\*.*?\*/)\s*)*(?:\{|\[\s*(?:[\[{\"]|//|/\*))", re.DOTALL)


def without_comments(text: str) -> str:
    """Return JSON with spaces in place of comments, which .NET and editors accept.

    Other texts are returned as they are. The lines keep their numbers.
    """
    if not _JSON.match(text):
        return text
    return _COMMENT.sub(
        lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]),
        text,
    )


def documents(text: str, name: str, warnings: list[str]) -> list[Any]:
    """Return the documents; a key that a mapping has twice adds a warning.

    Raises NotYamlError.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True
    if text.lstrip()[:1] in "{[":
        text = text.expandtabs(1)  # JSON may be indented by tabs, YAML may not
    try:
        with catch_warnings(action="ignore"):  # of an anchor that is defined twice
            roots = list(yaml.compose_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYamlError(
            str(error.problem or error.context), mark.line + 1 if mark else 0
        ) from None
    except (YAMLError, RecursionError) as error:
        raise NotYamlError(" ".join(str(error).split())[:200], 0) from None
    return [_Grown(name, warnings).value(root) for root in roots if root is not None]


class _Grown:
    """Builds trees from YAML nodes; aliases of a node share one object."""

    def __init__(self, name: str, warnings: list[str]) -> None:
        self._name = name
        self._warnings = warnings
        self._done: dict[int, Any] = {}

    def value(self, node: Node) -> Any:
        if id(node) not in self._done:
            self._done[id(node)] = self._new(node)
        return self._done[id(node)]

    def _new(self, node: Node) -> Any:
        line = node.start_mark.line + 1
        if isinstance(node, ScalarNode):
            return Text.at(_plain(node), line, block=node.style in ("|", ">"))
        if isinstance(node, SequenceNode):
            items: list[Any] = []
            self._done[id(node)] = items
            items += [self.value(item) for item in node.value]
            return items
        return self._block(node, line) if isinstance(node, MappingNode) else Text.at("", line)

    def _block(self, node: MappingNode, line: int) -> Block:
        block = self._done[id(node)] = Block(line)
        own: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            key = _plain(key_node) if isinstance(key_node, ScalarNode) else "?"
            key_line = key_node.start_mark.line + 1
            if key in own:
                self._warnings.append(
                    f"{self._name}:{key_line}: {key} stands twice (first in line "
                    f"{block.lines[key]}): the last one is taken"
                )
            own.add(key)
            block[key] = self.value(value_node)
            block.lines[key] = key_line
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged = self.value(value_node)
                for source in merged if isinstance(merged, list) else [merged]:
                    _merge(block, source)
        if block.get("kind") == "Secret" and isinstance(data := block.get("data"), Block):
            data.update({key: _decoded(one) for key, one in data.items() if isinstance(one, Text)})
        return block


def _merge(block: Block, source: Any) -> None:
    if isinstance(source, Block):
        for key in [key for key in source if key not in block]:
            block[key] = source[key]
            block.lines[key] = source.lines[key]


def _plain(node: ScalarNode) -> str:
    value = str(node.value)
    if node.tag == f"{_TAG}bool" and value.lower() in ("true", "false"):
        return value.lower()
    return "" if node.tag == f"{_TAG}null" else value


def block(node: object, *path: str) -> Block:
    """Return the mapping at a path; an empty mapping if there is none."""
    for key in path:
        node = node.get(key) if isinstance(node, Block) else None
    return node if isinstance(node, Block) else Block()


def items(node: object, *path: str) -> list[Any]:
    """Return the list at a path; an empty list if there is none."""
    found = block(node, *path[:-1]).get(path[-1]) if path else node
    return found if isinstance(found, list) else []


def text(node: object, *path: str) -> Text | None:
    """Return the text at a path; None if it is missing or empty."""
    value = block(node, *path[:-1]).get(path[-1])
    return value if isinstance(value, Text) and value else None


def flat(node: Block, prefix: str = "") -> dict[str, Text]:
    """Return texts by their dotted paths; an element of a list has its number in brackets."""
    found: dict[str, Text] = {}
    _flatten(node, prefix, found, 0)
    return found


def _flatten(node: object, path: str, found: dict[str, Text], depth: int) -> None:
    if depth > _DEEPEST or len(found) > _MOST_TEXTS:
        return
    if isinstance(node, Block):
        for key, value in node.items():
            _flatten(value, f"{path}.{key}" if path else key, found, depth + 1)
    elif isinstance(node, list):
        for at, value in enumerate(node):
            _flatten(value, f"{path}[{at}]", found, depth + 1)
    elif isinstance(node, Text):
        found[path] = node


def mappings(node: object, depth: int = 0) -> Iterator[Block]:
    """Yield the mappings below a node."""
    if depth > 20:
        return
    if isinstance(node, Block):
        yield node
    children = node.values() if isinstance(node, Block) else node if isinstance(node, list) else ()
    for child in children:
        yield from mappings(child, depth + 1)


def _decoded(value: Text) -> Text:
    """Return a value of a Secret of Kubernetes, which is in base64; an empty text if it is not."""
    return Text.at(_of_base64(value), value.line)


def in_base64(text: str) -> Iterator[str]:
    """Yield what is in base64 in a text that has a Secret of Kubernetes, without parsing it."""
    if re.search(r"kind[\"']?\s*:\s*[\"']?Secret\b", text):
        yield from map(_of_base64, re.findall(r"[A-Za-z0-9+/]{8,}={0,2}", text))


def _of_base64(text: str) -> str:
    try:
        return base64.b64decode(re.sub(r"\s", "", text), validate=True).decode()
    except ValueError:
        return ""
