"""Traces of partitions on real brokers, stored as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Log,
    Shrinks,
    Step,
    Trace,
    Truncates,
)

_KINDS = {
    kind.__name__: kind for kind in (Leads, Follows, Fetches, Truncates, Shrinks, Loads, Ends)
}


def write(trace: Trace, path: Path) -> None:
    """Store a trace with one line for each step."""
    told: dict[str, Any] = {
        "name": trace.name,
        "elections": [asdict(one) for one in trace.elections],
        "acks": [asdict(one) for one in trace.acks],
        "steps": [
            {"kind": type(step).__name__, **asdict(step)}
            for steps in trace.brokers.values()
            for step in steps
        ],
    }
    parts = [
        f"{json.dumps(name)}: "
        + (
            "[\n" + ",\n".join(f" {json.dumps(one)}" for one in value) + "\n]"
            if isinstance(value, list)
            else json.dumps(value)
        )
        for name, value in told.items()
    ]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read(path: Path) -> Trace:
    """Return a stored trace."""
    told = json.loads(path.read_text(encoding="utf-8"))
    brokers: dict[int, list[Step]] = {}
    for fields in told["steps"]:
        kind = _KINDS[fields.pop("kind")]
        if kind is Ends:
            runs, end = fields["log"]
            fields["log"] = Log(tuple(map(tuple, runs)), end)
        brokers.setdefault(fields["broker"], []).append(_made(kind, fields))
    return Trace(
        name=told["name"],
        elections=tuple(_made(Election, one) for one in told["elections"]),
        brokers={broker: tuple(steps) for broker, steps in brokers.items()},
        acks=tuple(Acked(**one) for one in told["acks"]),
    )


def _made(kind: Any, fields: dict[str, Any]) -> Any:
    if "isr" in fields:
        fields = fields | {"isr": tuple(fields["isr"])}
    return kind(**fields)
