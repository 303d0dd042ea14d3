"""The commands and options that errors, hints and help texts name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ackproof.cli.main import command_tree
from documented import ROOT, unknown_words

SOURCES = sorted((ROOT / "harness" / "ackproof").rglob("*.py"))
#: A command within a text, up to the end of its line, a backtick or the end of bold text.
COMMAND = re.compile(r"(?:`|\]|: )(ackproof (?!needs|uses)[a-z][^`\n\[]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def text_of(node: ast.AST) -> str:
    """Return a literal text, with `X` for what is put into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    return ""


def commands(tree: ast.AST) -> Iterator[str]:
    texts = [one for one in ast.walk(tree) if isinstance(one, ast.Constant | ast.JoinedStr)]
    parts = {id(p) for n in texts if isinstance(n, ast.JoinedStr) for p in n.values}
    for node in texts:
        if id(node) not in parts:
            yield from COMMAND.findall(text_of(node))


def hinted_options(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            for part in ast.walk(node.value):
                yield from OPTION.findall(text_of(part))


def all_options(command: Any) -> set[str]:
    own = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return own.union(*map(all_options, getattr(command, "commands", {}).values()))


def test_texts_name_commands_and_options_that_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    # Most modules have neither, and a walk through each of them takes seconds.
    sources = [ast.parse(one) for one in texts if "ackproof " in one or "hint=" in one]
    named = {command for source in sources for command in commands(source)}
    assert len(named) > 20
    assert {command: words for command in named if (words := unknown_words(command))} == {}
    options = all_options(command_tree()) | {"--help"}
    assert {option for one in sources for option in hinted_options(one)} <= options


def test_a_hint_that_names_nothing_is_noticed() -> None:
    source = 'raise E(f"no {x}", hint=f"Continue it with: ackproof compare --resum {x}")'
    [command] = commands(ast.parse(source))
    assert unknown_words(command) == ["--resum"]
    other = ast.parse('E(hint="Name another with --nowhere.")')
    assert list(hinted_options(other)) == ["--nowhere"]
    assert "--nowhere" not in all_options(command_tree())
