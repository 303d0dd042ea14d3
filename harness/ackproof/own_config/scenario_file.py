"""Writes a shipped scenario as a file of the user's own, with the user's configuration in it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ackproof.own_config.overlay import Overlay, overlay
from ackproof.own_config.settings import OwnConfig
from ackproof.scenario import documents, loader


def render(source: Path, own: OwnConfig, *, kafka: str) -> tuple[str, Overlay]:
    """Return the text of the new file, with the comments of `source`, and what was put in.

    Raises ScenarioError if the user's configuration is not legal in a scenario.
    """
    document = documents.parse(source)
    made = overlay(own, document, kafka=kafka)
    loader.load(source, lambda _: made.overrides)
    for path, value in made.overrides.replaced.items():
        _put(document, path, value)
    out = StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    # The first line of a shipped file names the schema by its place in the checkout.
    lines = out.getvalue().splitlines(keepends=True)
    text = "".join(line for line in lines if "yaml-language-server" not in line)
    read = f"# Made by `ackproof init` from {', '.join(own.read)}.\n" if own.read else ""
    return read + text, made


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    node = document
    for part in path[:-1]:
        if part not in node:
            if not value:
                return  # nothing to replace, and nothing to put there
            # `cluster` stands before `topics`, as in shipped files.
            place = list(node).index("topics") if "topics" in node else len(node)
            node.insert(place, part, {})
        node = node[part]
    if value is None:
        node.pop(path[-1], None)
    else:
        node[path[-1]] = value
