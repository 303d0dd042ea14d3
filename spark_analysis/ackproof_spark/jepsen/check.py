"""The entry points: check micro-operations as DataFrames, or history files with their verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof_spark.jepsen import (
    cycles,
    lost_writes,
    offsets,
    operation_order,
    process_order,
    unpolled,
    visibility,
)
from ackproof_spark.jepsen import (
    evidence as forms,
)
from ackproof_spark.jepsen.configuration import (
    DEFAULTS,
    Configuration,
    Judgement,
    judge,
)
from ackproof_spark.jepsen.frames import Histories
from ackproof_spark.jepsen.reader import Cases, HistoryFile
from ackproof_spark.jepsen.tables import FURTHER, HistoryAnomaly
from ackproof_spark.spark.functions import union
from ackproof_spark.spark.small_data import from_arrow, side_by_side, small_plans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Not an anomaly: how many values were unseen after each operation, if all have a time.
UNSEEN_SERIES = "unseen-series"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is wrong with one history.

    `anomalies` and `further` (those that Jepsen's checker does not name) hold the evidence of
    each that occurs, in the tuples of `evidence`; `anomalies` also `UNSEEN_SERIES`.
    """

    path: Path
    configuration: Configuration
    judgement: Judgement
    anomalies: dict[str, list[Any]]
    further: dict[str, list[Any]]


def find(histories: Histories) -> DataFrame:
    """Return every anomaly of these histories but cycles, one row each (`tables.ANOMALIES`)."""
    families = (offsets, lost_writes, unpolled, visibility, operation_order, process_order)
    return union(family.find(histories) for family in families)


def check(spark: SparkSession, cases: Cases, defaults: Configuration = DEFAULTS) -> list[Report]:
    """Check histories, all in one set of Spark jobs; return one report each, in order.

    `defaults` is what holds for settings that a file does not tell.
    """
    histories = Histories(micro_ops=from_arrow(spark, cases.micro_ops))
    rows = len(cases.micro_ops)
    timed = any(file.times for file in cases.files)
    with small_plans(spark, rows=rows), histories.cached():
        found, in_cycles, changes = side_by_side(
            lambda: find(histories).toArrow().to_pylist(),
            lambda: cycles.find(histories, ww_deps=defaults.ww_deps).toArrow().to_pylist(),
            lambda: unpolled.changes(histories).toArrow().to_pylist() if timed else [],
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
    evidence = {
        kind: [
            forms.evidence(row, numbers=file.numbers) for row in sorted(rows, key=forms.in_order)
        ]
        for kind, rows in by_kind.items()
        if rows
    }
    anomalies = {kind.value: rows for kind, rows in evidence.items() if kind not in FURTHER}
    if file.times:
        anomalies[UNSEEN_SERIES] = _series(file.times, changes)
    counts = {kind.value: len(rows) for kind, rows in evidence.items()}
    return Report(
        path=file.path,
        configuration=configuration,
        judgement=judge(counts, configuration, records=file.records),
        anomalies=anomalies,
        further={kind.value: rows for kind, rows in evidence.items() if kind in FURTHER},
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
