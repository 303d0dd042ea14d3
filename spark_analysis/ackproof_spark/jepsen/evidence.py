"""The evidence of each anomaly as a tuple: which columns of `tables.ANOMALIES`, in which order.

| anomaly | tuple |
|---|---|
| inconsistent-offsets | key, offset, index, values |
| duplicate | key, value, number of offsets, offsets |
| lost-write | key, value, index, max-read index |
| unseen | key, number of values, values |
| G1a | key, value, writer op, reader op |
| precommitted-read | key, value, op |
| int-poll-skip, int-send-skip | key, [value, next value], delta, values skipped |
| int-nonmonotonic-poll, int-nonmonotonic-send | key, [value, next value], delta |
| poll-skip | key, delta, values skipped |
| nonmonotonic-poll, nonmonotonic-send | key, [value, next value], delta |
| G0, G1c, G-single … | ops, the first one again at the end; steps: [relation, key, values] |
| phantom | key, value, op, offset |
| torn-transaction | op, [key, value] missing, [key, value] readable |

An op is named by its place in the history, from 0; an index counts a key's offsets without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ackproof_spark.jepsen.tables import HistoryAnomaly as Is

Row = Mapping[str, Any]


def evidence(row: Row, *, numbers: Collection[str] = ()) -> list[Any]:
    """Return the tuple of one row, with keys and values as they were sent.

    `numbers` are the keys that are numbers.
    """
    typed = {
        name: int(row[name]) if row[name] in numbers else row[name] for name in ("key", "other_key")
    }
    steps = [
        {**step, "key": int(step["key"]) if step["key"] in numbers else step["key"]}
        for step in row["steps"] or []
    ]
    return _FORMS[Is(row["anomaly"])]({**row, **typed, "steps": steps})


def in_order(row: Row) -> tuple[Any, ...]:
    """Return what to sort a history's rows of one anomaly by: where they show, then what."""
    if row["anomaly"] in _BY_PLACE:
        place = row["offsets"][0] if row["offsets"] else row["index"]
        return (row["key"], -1 if place is None else place, row["values"] or [])
    return (row["ops"][-1], row["number"] or 0, row["ops"], row["key"] or "", row["values"] or [])


def values(texts: list[str]) -> list[Any]:
    """Return values as they were sent: numbers first, then texts, each in their order."""
    decoded = [json.loads(text) for text in texts]
    return sorted(decoded, key=lambda value: (isinstance(value, str), value))


_BY_PLACE = (Is.INCONSISTENT_OFFSETS, Is.DUPLICATE, Is.LOST_WRITE, Is.UNSEEN)


def _value(row: Row, number: int = 0) -> Any:
    return json.loads(row["values"][number])


def _both(row: Row) -> list[Any]:
    return [_value(row, 0), _value(row, 1)]


def _skipped(row: Row) -> list[Any]:
    return [json.loads(text) for text in row["skipped"]]


def _jump(row: Row) -> list[Any]:
    return [row["key"], _both(row), row["delta"]]


def _jump_and_skipped(row: Row) -> list[Any]:
    return [*_jump(row), _skipped(row)]


def _cycle(row: Row) -> list[Any]:
    steps = [
        [step["relation"], step["key"], [json.loads(text) for text in step["values"]]]
        for step in row["steps"]
    ]
    return [row["ops"], steps]


_FORMS: dict[Is, Callable[[Row], list[Any]]] = {
    Is.INCONSISTENT_OFFSETS: lambda row: [
        row["key"],
        row["offsets"][0],
        row["index"],
        values(row["values"]),
    ],
    Is.DUPLICATE: lambda row: [row["key"], _value(row), len(row["offsets"]), row["offsets"]],
    Is.LOST_WRITE: lambda row: [row["key"], _value(row), row["index"], row["max_read_index"]],
    Is.UNSEEN: lambda row: [row["key"], len(row["values"]), values(row["values"])],
    Is.G1A: lambda row: [row["key"], _value(row), *row["ops"]],
    Is.PRECOMMITTED_READ: lambda row: [row["key"], _value(row), *row["ops"]],
    Is.INT_POLL_SKIP: _jump_and_skipped,
    Is.INT_SEND_SKIP: _jump_and_skipped,
    Is.INT_NONMONOTONIC_POLL: _jump,
    Is.INT_NONMONOTONIC_SEND: _jump,
    Is.POLL_SKIP: lambda row: [row["key"], row["delta"], _skipped(row)],
    Is.NONMONOTONIC_POLL: _jump,
    Is.NONMONOTONIC_SEND: _jump,
    Is.G0: _cycle,
    Is.G0_PROCESS: _cycle,
    Is.G1C: _cycle,
    Is.G1C_PROCESS: _cycle,
    Is.PHANTOM: lambda row: [
        row["key"],
        _value(row),
        *row["ops"],
        row["offsets"][0] if row["offsets"] else None,
    ],
    Is.TORN_TRANSACTION: lambda row: [
        row["ops"][0],
        [row["key"], _value(row, 0)],
        [row["other_key"], _value(row, 1)],
    ],
    Is.G1C_WR: _cycle,
    Is.G_SINGLE: _cycle,
    Is.G2_ITEM: _cycle,
}
