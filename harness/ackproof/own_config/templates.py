"""Refuses templates of Helm, Jinja and the like, which say nothing before they are rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ackproof.own_config.parts import UNKNOWN, RefusalError, Source, template

_OF_KAFKA = re.compile(r"kafka|insync|broker|zookeeper|replication", re.IGNORECASE)
_TEMPLATE_MARK = re.compile(r"\{\{|\{%|<%=")
_MARK = re.compile(r"""(?:^|[:=,\[(\s-])\s*(\{\{|\{%|<%=)""")
_BLOCK_BEGINS = re.compile(r"( *)(?:- +)*[^#]*?[:-] +[|>][+-]?\d?[+-]?\s*(#.*)?")
_SETTING = re.compile(r"\s*(acks|[a-z]+(\.[a-z]+)+)\s*=")


def _foreign_blocks(lines: Sequence[str]) -> set[int]:
    """Return the lines of YAML's block texts without settings, such as a template of Vault."""
    found: set[int] = set()
    inside: list[int] = []
    depth = -1
    for number, line in enumerate([*lines, "end"], start=1):
        if depth >= 0 and (not line.strip() or len(line) - len(line.lstrip()) > depth):
            inside.append(number)
            continue
        if not any(_SETTING.match(lines[at - 1]) for at in inside):
            found.update(inside)
        inside = []
        begins = _BLOCK_BEGINS.fullmatch(line)
        depth = len(begins[1]) if begins else -1
    return found


def refuse_unrendered(source: Source) -> None:
    """Raise RefusalError for marks of a template outside comments, quotes and foreign blocks."""
    if not _TEMPLATE_MARK.search(source.text):
        return
    foreign = _foreign_blocks(source.lines)
    for number, line in enumerate(source.lines, start=1):
        if number in foreign or line.lstrip().startswith("#"):
            continue
        if match := _MARK.search(re.sub(r"""("[^"]*"|'[^']*')""", "''", line)):
            about = "" if _OF_KAFKA.search(source.text) else f"{UNKNOWN}: "
            raise RefusalError(about + template(match[1], number))
