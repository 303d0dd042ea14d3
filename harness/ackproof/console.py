"""The console on which commands print.

Text may come from brokers' logs, from error messages and from runs of other people. Control
characters in it would reach the terminal, which may obey them: they are shown as symbols.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.segment import Segment

#: Each control character but tab and newline, with its symbol (`␛` for escape).
_SYMBOLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


class Console(console.Console):
    """A rich console that shows control characters of printed text as symbols."""

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(segment.text.translate(_SYMBOLS), segment.style)
            else:
                yield segment
