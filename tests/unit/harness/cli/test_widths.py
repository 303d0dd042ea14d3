"""At 80 columns no command breaks a word: its words are those of a terminal of any width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ackproof.cli.main import command_tree
from command_line import ackproof
from support.shipped_scenarios import load_once

_BOXES = re.compile("[─-╿]")


def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, *path, name)


PRINTING = [
    *([*path, "--help"] for path in commands(command_tree())),
    ["faults"],
    ["faults", "isolate_replication"],
    ["scenarios"],
    ["predict", "acks"],
    ["predict", "B6"],
    ["runs", "--out", "nowhere"],
    ["predict", "nowhere.yaml"],
]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_no_word_breaks(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments == ["scenarios"]:
        load_once(monkeypatch)

    def words(columns: int) -> set[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        ackproof(*arguments)
        captured = capsys.readouterr()
        return set(_BOXES.sub(" ", captured.out + captured.err).split())

    assert words(80) <= words(500)


def test_a_paragraph_of_help_fills_its_lines() -> None:
    broken = []
    for path in commands(command_tree()):
        command: Any = command_tree()
        for name in path:
            command = command.commands[name]
        if any("\n" in paragraph for paragraph in command.help.split("\n\n")):
            broken.append(path)
    assert broken == []
