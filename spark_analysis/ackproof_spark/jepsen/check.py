"""The entry points: check micro-operations as DataFrames, or history files.

`docs/reference/anomalies.md` defines each anomaly and its evidence, a tuple of columns of
`tables.ANOMALIES`. An op is its position in the history, from 0; an index counts a key's offsets
without gaps.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ackproof_spark.jepsen import cycles, order, records
from ackproof_spark.jepsen.configuration import (
    DEFAULTS,
    Configuration,
    Judgement,
    judge,
)
from ackproof_spark.jepsen.frames import Histories
from ackproof_spark.jepsen.reader import Cases, HistoryFile
from ackproof_spark.jepsen.tables import FURTHER, HistoryAnomaly
from ackproof_spark.jepsen.tables import HistoryAnomaly as Is
from ackproof_spark.spark.functions import DataFrame, SparkSession, union
from ackproof_spark.spark.small_data import from_arrow, side_by_side, small_plans

#: Not an anomaly: the number of unseen values after each operation, if all have a time.
UNSEEN_SERIES = "unseen-series"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The anomalies of one history, and its verdict.

    `anomalies` and `further` (anomalies that Jepsen's checker lacks) have the evidence of each
    anomaly, in the tuples of `evidence`; `anomalies` also has `UNSEEN_SERIES`.
    """

    path: Path
    configuration: Configuration
    judgement: Judgement
    anomalies: dict[str, list[Any]]
    further: dict[str, list[Any]]


def find(histories: Histories) -> DataFrame:
    """Return every anomaly of these histories except cycles, as rows of `tables.ANOMALIES`."""
    families = (
        records.misplaced,
        records.lost_writes,
        records.unseen,
        records.forbidden_reads,
        order.within_operations,
        order.between_operations,
    )
    return union(family(histories) for family in families)


def check(spark: SparkSession, cases: Cases, defaults: Configuration = DEFAULTS) -> list[Report]:
    """Check histories, all in one set of Spark jobs; return one report each, in order.

    `defaults` are the settings that a file does not have.
    """
    histories = Histories(micro_ops=from_arrow(spark, cases.micro_ops))
    rows = len(cases.micro_ops)
    timed = any(file.times for file in cases.files)
    with small_plans(spark, rows=rows), histories.cached():
        found, in_cycles, changes = side_by_side(
            lambda: find(histories).toArrow().to_pylist(),
            lambda: cycles.find(histories, ww_deps=defaults.ww_deps).toArrow().to_pylist(),
            lambda: records.changes(histories).toArrow().to_pylist() if timed else [],
            rows=rows,
        )
    found_in, changes_in = _by_history([*found, *in_cycles]), _by_history(changes)
    return [
        _report(file, defaults, found_in.get(number, []), changes_in.get(number, []))
        for number, file in enumerate(cases.files)
    ]


def _by_history(rows: Sequence[dict[str, Any]]) -> Mapping[int, list[dict[str, Any]]]:
    grouped = defaultdict(list)
    for row in rows:
        grouped[row["history"]].append(row)
    return grouped


def _report(
    file: HistoryFile,
    defaults: Configuration,
    found: Sequence[dict[str, Any]],
    changes: Sequence[dict[str, Any]],
) -> Report:
    configuration = replace(defaults, **file.settings)
    by_kind: dict[HistoryAnomaly, list[dict[str, Any]]] = {kind: [] for kind in HistoryAnomaly}
    for row in found:
        by_kind[HistoryAnomaly(row["anomaly"])].append(row)
    found_of = {
        kind: [evidence(row, numbers=file.numbers) for row in sorted(rows, key=in_order)]
        for kind, rows in by_kind.items()
        if rows
    }
    anomalies = {kind.value: rows for kind, rows in found_of.items() if kind not in FURTHER}
    if file.times:
        anomalies[UNSEEN_SERIES] = _series(file.times, changes)
    counts = {kind.value: len(rows) for kind, rows in found_of.items()}
    return Report(
        path=file.path,
        configuration=configuration,
        judgement=judge(counts, configuration, records=file.records),
        anomalies=anomalies,
        further={kind.value: rows for kind, rows in found_of.items() if kind in FURTHER},
    )


def _series(
    times: Sequence[tuple[int, int | float]], changes: Sequence[dict[str, Any]]
) -> list[Any]:
    """Return time and unseen values by key after each operation in `times`."""
    at: dict[int, dict[str, int]] = defaultdict(dict)
    for row in changes:
        at[row["op"]][row["key"]] = row["unseen"]
    now: dict[str, int] = {}
    series = []
    for op, time in times:
        now |= at.get(op, {})
        series.append([time, dict(sorted(now.items()))])
    return series


Row = Mapping[str, Any]


def evidence(row: Row, *, numbers: Collection[str] = ()) -> list[Any]:
    """Return a row's tuple, with keys and values as they were sent; `numbers`: numeric keys."""
    typed = {
        name: int(row[name]) if row[name] in numbers else row[name] for name in ("key", "other_key")
    }
    steps = [
        {**step, "key": int(step["key"]) if step["key"] in numbers else step["key"]}
        for step in row["steps"] or []
    ]
    return _FORMS[Is(row["anomaly"])]({**row, **typed, "steps": steps})


def in_order(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a history's rows of one anomaly: by position, then by values."""
    if row["anomaly"] in _BY_OFFSET:
        offset = row["offsets"][0] if row["offsets"] else row["index"]
        return (row["key"], -1 if offset is None else offset, row["values"] or [])
    return (row["ops"][-1], row["number"] or 0, row["ops"], row["key"] or "", row["values"] or [])


def values(texts: list[str]) -> list[Any]:
    """Return values as they were sent, sorted: numbers first, then texts."""
    decoded = [json.loads(text) for text in texts]
    return sorted(decoded, key=lambda value: (isinstance(value, str), value))


_BY_OFFSET = (Is.INCONSISTENT_OFFSETS, Is.DUPLICATE, Is.LOST_WRITE, Is.UNSEEN)


def _value(row: Row, number: int = 0) -> Any:
    return json.loads(row["values"][number])


def _skipped(row: Row) -> list[Any]:
    return [json.loads(text) for text in row["skipped"]]


def _jump(row: Row) -> list[Any]:
    return [row["key"], [_value(row, 0), _value(row, 1)], row["delta"]]


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
    **dict.fromkeys((Is.INT_POLL_SKIP, Is.INT_SEND_SKIP), lambda row: [*_jump(row), _skipped(row)]),
    Is.INT_NONMONOTONIC_POLL: _jump,
    Is.INT_NONMONOTONIC_SEND: _jump,
    Is.POLL_SKIP: lambda row: [row["key"], row["delta"], _skipped(row)],
    Is.NONMONOTONIC_POLL: _jump,
    Is.NONMONOTONIC_SEND: _jump,
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
    **dict.fromkeys(
        (Is.G0, Is.G0_PROCESS, Is.G1C, Is.G1C_PROCESS, Is.G1C_WR, Is.G_SINGLE, Is.G2_ITEM), _cycle
    ),
}
