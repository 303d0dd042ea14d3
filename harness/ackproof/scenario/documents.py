"""Reads YAML documents, refuses too large ones, finds the line of a key.

A small file can be expensive: aliases repeat nodes, and numbers can have any length.
"""

from __future__ import annotations

import difflib
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

from ackproof import safe_files
from ackproof.errors import ScenarioError
from ackproof.scenario.shipped import names
from ackproof.scenario.types import YamlPath

#: YAML is read at some 0.15 ms a line.
_MOST_CHARACTERS = 1_000_000

#: The size of that in UTF-8.
_MOST_BYTES = 4 * _MOST_CHARACTERS

#: Characters that are shown of the begin of a problem (with the value), and of its end.
_SHOWN = 300

_YAML_WORDS = {type(None): "nothing", CommentedSeq: "a list", str: "text"}

#: Keys and values, counted as often as aliases repeat them. A validated node takes some 50 µs.
MOST_NODES = 100_000

#: The most digits of a whole number. Python converts no text of more than 4,300 to a number.
MOST_DIGITS = 400

_DIGITS = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")
_TOO_LARGE = 10**MOST_DIGITS


def shortened(text: str) -> str:
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]} … {text[-_SHOWN:]}"


def parse(path: Path) -> CommentedMap:
    """Return a scenario file's document with its comments. Raises ScenarioError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it
            text = safe_files.read(path, most=_MOST_BYTES).decode("utf-8")
            if len(text) > _MOST_CHARACTERS:
                raise ScenarioError(
                    f"{path}: it has {len(text):,} characters, and {_MOST_CHARACTERS:,} is the most"
                )
            document = YAML().load(text)
    except FileNotFoundError:
        beside = [str(path.parent / file.name) for file in path.parent.glob("*.y*ml")]
        near = difflib.get_close_matches(str(path), [*beside, *names()])
        guess = f" Did you mean {near[0]}?" if near else ""
        raise ScenarioError(
            f"{path}: no such scenario file.{guess}",
            hint="Name a YAML file (`ackproof validate --json-schema scenario` prints its format), "
            "or a shipped scenario (`ackproof scenarios` lists them).",
        ) from None
    except IsADirectoryError:
        raise ScenarioError(f"{path} is a folder", hint="Name one scenario file in it.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(
            f"{path}: cannot be read: {getattr(error, 'strerror', '') or error}",
            hint="A scenario is a YAML file in UTF-8 that you may read.",
        ) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ScenarioError(
            f"{path}:{line}: not valid YAML: column {column}: {shortened(str(error.problem))}"
        ) from error
    except (YAMLError, RecursionError, ValueError, TypeError) as error:
        problem = shortened(" ".join(str(error).split()))
        raise ScenarioError(f"{path}: not valid YAML: {problem}") from error
    if not isinstance(document, CommentedMap):
        raise ScenarioError(
            f"{path}:1: a scenario is a mapping of keys (version, name, topics, workload, …), "
            f"not {_YAML_WORDS.get(type(document), 'that')}"
        )
    if problem := size_problem(document):
        raise ScenarioError(f"{path}: {problem}")
    return document


def locate(document: CommentedMap, path: Sequence[str | int]) -> tuple[int, bool]:
    """Return the 1-based line of the deepest existing part of a path; whether all of it exists."""
    node: Any = document
    line = 1
    for part in path:
        if isinstance(node, CommentedMap) and part in node:
            # The keys that `<<` merges into a mapping have no line of their own.
            line = node.lc.key(part)[0] + 1 if part in (node.lc.data or {}) else line
        elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
            line = node.lc.item(part)[0] + 1
        else:
            return line, False
        node = node[part]
    return line, True


@dataclass(frozen=True)
class FileLines:
    """The lines of a scenario file; every key of an unreadable file is at line 1."""

    document: CommentedMap

    @classmethod
    def read(cls, path: Path) -> FileLines:
        try:
            return cls(parse(path))
        except ScenarioError:
            return cls(CommentedMap())

    def line(self, key: YamlPath) -> int:
        """Return the line of the deepest existing part of a key."""
        return locate(self.document, key)[0]

    def has(self, key: YamlPath) -> bool:
        return locate(self.document, key)[1]


def size_problem(document: Any) -> str:
    """Return why a YAML document is too large to be validated; '' if it is not."""
    #: By identity, so that each node is counted once. A collection that is still being counted is
    #: infinite: it contains an alias of itself.
    counted: dict[int, float] = {}
    too_long = False

    def count(node: Any) -> float:
        """Return the number of nodes in a node, itself included; infinite if it holds itself."""
        nonlocal too_long
        if not isinstance(node, Mapping | list):
            too_long = too_long or _is_too_long(node)
            return 1
        if id(node) not in counted:
            counted[id(node)] = math.inf
            inner = [*node, *node.values()] if isinstance(node, Mapping) else node
            counted[id(node)] = 1 + sum(map(count, inner))
        return counted[id(node)]

    nodes = count(document)
    if too_long:
        return f"a number in it has more than {MOST_DIGITS} digits: write a smaller one"
    if nodes <= MOST_NODES:
        return ""
    if nodes == math.inf:
        return "an alias stands inside what its anchor names, which has no end: remove the alias"
    return (
        f"with every alias replaced it has {nodes:,} keys and values, and {MOST_NODES:,} is the "
        "most: repeat less"
    )


def _is_too_long(value: object) -> bool:
    if isinstance(value, str):
        return _DIGITS.search(value) is not None
    return isinstance(value, int) and abs(value) >= _TOO_LARGE
