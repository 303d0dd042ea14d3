"""Formats numbers, times and brokers for the terminal and the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


def count(number: int) -> str:
    """Format with thousands separators: `1,204`."""
    return f"{number:,}"


def share(part: float, whole: float) -> str:
    """Format `part` of `whole` as a percentage; only zero is `0 %`, only all is `100.00 %`."""
    if whole == 0:
        return "n/a"
    percent = 100 * part / whole
    if part and percent < 0.01:
        return "< 0.01 %"
    if part < whole and percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.2f} %" if part else "0 %"


def number(value: float) -> str:
    """Format a measured value with two or three digits: `0.42`, `4.1`, `127`, `12,300`."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def duration(milliseconds: float) -> str:
    """Format a duration in milliseconds or seconds: `4.1 ms`, `8.1 s`."""
    if milliseconds >= 1000:
        return f"{number(milliseconds / 1000)} s"
    return f"{number(milliseconds)} ms"


def seconds(value: float) -> str:
    return duration(1000 * value)


def clock(moment: datetime | None) -> str:
    """Format the time of day in UTC: `12:04:11.203`."""
    if moment is None:
        return "never"
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def fault(window: int) -> str:
    """Return `F1` for fault window 0."""
    return f"F{window + 1}"


def brokers(nodes: Sequence[int]) -> str:
    """Format broker ids: `broker 1`, `brokers 1 and 3`."""
    if not nodes:
        return "no broker"
    return ("broker " if len(nodes) == 1 else "brokers ") + listing(map(str, nodes))


def brokers_set(nodes: Sequence[int]) -> str:
    """Format broker ids as a set: `{1, 3}`."""
    return "{" + ", ".join(map(str, sorted(nodes))) + "}"


def listing(items: Iterable[str]) -> str:
    """Join as `a`, `a and b` or `a, b and c`."""
    *head, last = items
    return f"{', '.join(head)} and {last}" if head else last


def seeds(of: set[int]) -> str:
    """Format the seeds of runs: `seed 1`, `seeds 1 to 30`, `seeds 1, 3 and 7`."""
    first, last = min(of), max(of)
    if len(of) == 1:
        return f"seed {first}"
    if last - first == len(of) - 1:
        return f"seeds {first} to {last}"
    return f"seeds {listing(map(str, sorted(of)))}"


def plural(number: int, noun: str, several: str = "") -> str:
    """Format a count with its noun: `1 trial`, `3 trials`; `several` is an irregular plural."""
    return f"{count(number)} {noun if number == 1 else several or f'{noun}s'}"


def markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def percent(probability: float) -> str:
    """Format a probability as a percentage with three significant digits."""
    return f"{100 * probability:.3g} %"


def about(probability: float) -> str:
    """Format a share as runs support it: `0 %`, `< 0.1 %`, `3.2 %`, `41 %`, `> 99 %`, `100 %`."""
    percent = 100 * probability
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99 < percent < 100:
        return "> 99 %"
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def quoted(name: str) -> str:
    """Quote the name of a configuration if it contains a comma."""
    return f"'{name}'" if "," in name else name


def unbroken(text: str) -> str:
    """Return the text with numbers, their units and `≤` on one line of a page."""
    return re.sub(r"(?<=\d) (?=%|ms\b|s\b)|(?<=≤) ", "\N{NO-BREAK SPACE}", text)
