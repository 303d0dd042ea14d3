"""Durations as a scenario writes them: ``5s``, ``250ms``, ``2m``, or a number of seconds."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_WRITTEN = re.compile(rf"({_NUMBER}) ?(ms|s|m)")

#: The pattern of a duration, without groups, for longer patterns.
DURATION = rf"{_NUMBER} ?(?:ms|s|m)"


def format_duration(seconds: float) -> str:
    """Return seconds as a scenario writes them: ``5s``, ``1.5s``."""
    return f"{seconds:g}s"


def parse_duration(value: object) -> float:
    """Return the seconds in ``5s``, ``250ms``, ``2m`` or a number; raise ValueError otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration ('5s', '250ms', '2m', or seconds)")
    return float(match[1]) * _UNITS[match[2]]


def parse_offset(value: object) -> float:
    """Return the seconds in ``-90m``, ``+5s`` or ``-3``; raise ValueError otherwise."""
    sign = 1
    if isinstance(value, str) and value[:1] in ("-", "+"):
        sign, value = (-1 if value[0] == "-" else 1), value[1:]
    elif isinstance(value, int | float) and value < 0:
        sign, value = -1, -value
    return sign * parse_duration(value)


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{DURATION}$"},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]

#: A duration that may be negative.
Offset = Annotated[
    float,
    BeforeValidator(parse_offset),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": f"^[-+]?{DURATION}$"}, {"type": "number"}]}
    ),
]
