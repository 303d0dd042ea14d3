"""The console on which commands print.

Text may come from brokers' logs, error messages and other people's runs. Control characters in it
are shown as symbols, because a terminal could execute them.

A table that is too wide is narrowed where no word breaks. rich alone breaks words in the widest
columns while other columns have room.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

#: The symbol of each control character except tab and newline (`␛` for escape).
_SYMBOLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


class Console(console.Console):
    """A rich console that shows control characters as symbols and keeps the words of tables."""

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, Table):
            _fit(renderable, self, options or self.options)
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(segment.text.translate(_SYMBOLS), segment.style)
            else:
                yield segment


def _fit(table: Table, on: console.Console, options: console.ConsoleOptions) -> None:
    """Set the widths of a table's columns so that it fits and, if possible, no word breaks."""
    free = options.update(max_width=10**6)

    def measured(what: console.RenderableType) -> Measurement:
        return Measurement.get(on, free, what)

    longest, least = [], []
    for column in table.columns:
        cells = [measured(cell) for cell in (column.header, *column.cells)]
        widths = [cell.maximum for cell in cells]
        words = widths if column.no_wrap else [cell.minimum for cell in cells]
        fixed = column.width
        longest.append(fixed or max([column.min_width or 0, *widths]))
        least.append(fixed or max([column.min_width or 0, *words]))
    space = options.max_width - (measured(table).maximum - sum(longest))
    if sum(longest) <= space:
        return
    while sum(least) < space:  # the narrowest column that lacks space gets it first
        lacking = [at for at, width in enumerate(least) if width < longest[at]]
        least[min(lacking, key=lambda at: (least[at], at))] += 1
    if sum(least) > space:  # the longest word must break
        at = max(range(len(least)), key=least.__getitem__)
        least[at] = max(1, least[at] - (sum(least) - space))
        table.columns[at].overflow = "fold"
    for column, width in zip(table.columns, least, strict=True):
        column.width = width


def say(on: console.Console, text: str, *, style: str = "") -> None:
    """Print a text as it is, without markup."""
    on.print(Text(text, style=style), highlight=False)


def print_item(on: console.Console, label: str, text: str, *, style: str = "") -> None:
    """Print a text after a label; later lines are indented by the width of the label."""
    grid = Table.grid(padding=0)
    grid.add_column(width=len(label))
    grid.add_column(overflow="fold")
    grid.add_row(Text(label), Text(text, style=style))
    on.print(grid)
