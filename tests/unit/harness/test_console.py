from __future__ import annotations

import io

from rich.table import Table

from ackproof.console import Console


def printed(renderable: object, **how: object) -> str:
    file = io.StringIO()
    Console(file=file, width=60, **how).print(renderable)  # type: ignore[arg-type]
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
