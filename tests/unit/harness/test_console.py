from __future__ import annotations

import io

from rich.table import Table

from ackproof.console import Console


def printed(renderable: object, **how: object) -> str:
    file = io.StringIO()
    Console(file=file, width=60, **how).print(renderable)
    return file.getvalue()


def test_control_characters_of_text_are_symbols() -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f and\ttext"
    for renderable in (hostile, _table(hostile)):
        shown = printed(renderable)
        assert not {"\x1b", "\x07", "\x9b", "\x7f"} & set(shown)
        assert "␛" in shown
        assert "text" in shown


def test_styles_still_reach_a_terminal() -> None:
    assert "\x1b[31m" in printed("[red]lost[/]", force_terminal=True, color_system="standard")


def _table(text: str) -> Table:
    table = Table("name")
    table.add_row(text)
    return table


def test_a_wide_table_breaks_no_word_and_a_narrow_table_is_unchanged() -> None:
    table = Table("name", "what it does", "needs", "number")
    words = ["min.insync.replicas", "several", "short", "words", "sudo", "1,000,000"]
    table.add_row(words[0], " ".join(words[1:4] * 5), words[4], words[5])
    lines = printed(table).splitlines()
    assert max(map(len, lines)) <= 60
    assert set(words) <= set(" ".join(lines).replace("│", " ").split())
    narrow = Table("name")
    narrow.add_row("kill")
    assert len(printed(narrow).splitlines()[0].rstrip()) == len("┏━━━━━━┓")


def test_a_word_that_is_wider_than_the_console_breaks() -> None:
    table = Table("name", "value")
    table.add_row("min.insync.replicas", "x" * 100)
    lines = printed(table).splitlines()
    assert max(map(len, lines)) <= 60
    assert "min.insync.replicas" in "".join(lines)
    assert "".join(lines).count("x") == 100
