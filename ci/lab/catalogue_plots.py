"""Plots of stored runs as SVG, for the pages of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Any

_WIDTH = 760
_LEFT = 70
_PLOT = _WIDTH - _LEFT - 20
_RATE = 110
_ROW = 18
#: Bars are cut off at so many medians.
_CUT = 3
#: Brokers 1 to 7, and no leader.
_COLOURS = ("#4477aa", "#228833", "#aa7733", "#66a0bb", "#8855aa", "#777777", "#aa4466")
_NO_LEADER = "#f2d7d7"
_ACKED, _LOST, _FAULT = "#8fb3d9", "#cc3311", "#555555"


def timeline(points: dict[str, Any], *, title: str) -> str:
    """Return a plot: acked and lost sends per second, each fault, the leader and the ISR."""
    windows, leaders = points["windows"], points["leaders"]
    seconds = max(len(points["acked"]) * points["width"], 0.1)
    scale = _PLOT / seconds
    height = _RATE + 30 + _ROW * (len(windows) + 1) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        *_rates(points, scale),
    ]
    y = _RATE + 30
    for begin, end, what in windows:
        left = _LEFT + max(begin, 0) * scale
        wide = max((min(end, seconds) - max(begin, 0)) * scale, 2)
        parts.append(_bar(left, y, wide, _FAULT))
        # The text stands where there is room for it.
        inside = left + wide + 5 < _WIDTH - 7 * len(what)
        at, anchor = (left + wide + 5, "start") if inside else (left - 5, "end")
        parts.append(_text(at, y + 11, what, anchor=anchor))
        y += _ROW
    for begin, end, leader, isr in leaders:
        if begin >= seconds:
            continue
        colour = _COLOURS[(leader - 1) % len(_COLOURS)] if leader >= 0 else _NO_LEADER
        wide = max((min(end, seconds) - begin) * scale, 1)
        parts.append(_bar(_LEFT + begin * scale, y, wide, colour))
        label = f"{leader}, ISR {isr}" if leader >= 0 else "none"
        if wide > 7 * len(label):
            fill = "white" if leader >= 0 else "black"
            parts.append(_text(_LEFT + begin * scale + 4, y + 11, label, fill=fill))
    if leaders:
        parts.append(_text(_LEFT - 5, y + 11, "leader", anchor="end"))
    y += _ROW + 14
    for tick in range(0, int(seconds) + 1, _tick(seconds)):
        parts.append(_text(_LEFT + tick * scale, y, f"{tick} s", anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rates(points: dict[str, Any], scale: float) -> list[str]:
    width, acked = points["width"], points["acked"]
    top = _top(acked)
    parts = [
        _text(_LEFT - 5, 16, f"{top / width:,.0f}/s", anchor="end"),
        _text(_LEFT - 5, _RATE + 10, "0", anchor="end"),
        _text(_LEFT + 4, 12, "acked", fill="#4477aa"),
        _text(_LEFT + 44, 12, "acked, but lost", fill=_LOST),
    ]
    if max(acked, default=0) > top:
        parts.append(_text(_LEFT + 140, 12, _peak(points)))
    for series, colour in ((acked, _ACKED), (points["lost"], _LOST)):
        for index, count in enumerate(series):
            if count:
                high = min(max(count / top * (_RATE - 10), 1), _RATE - 10)
                left = _LEFT + index * width * scale
                parts.append(
                    f'<rect x="{left:.1f}" y="{_RATE + 10 - high:.1f}" '
                    f'width="{max(width * scale, 0.5):.1f}" height="{high:.1f}" fill="{colour}"/>'
                )
    return parts


def _top(counts: Sequence[int]) -> float:
    """Return the top of the scale: what is sent at once after an outage must not flatten it."""
    some = [count for count in counts if count] or [1]
    return min(max(some), _CUT * median(some))


def _peak(points: dict[str, Any]) -> str:
    """Return what the highest bar is, for a plot that cuts it off."""
    width, most = points["width"], max(points["acked"])
    at = points["acked"].index(most)
    lost = points["lost"][at] / width
    told = f"higher bars are cut off; the highest, at {at * width:.0f} s: {most / width:,.0f}/s"
    return f"{told}, of which {lost:,.0f}/s are lost" if lost else told


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="14" fill="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _tick(seconds: float) -> int:
    return next((step for step in (1, 2, 5, 10, 20, 30, 60) if seconds / step <= 10), 120)
