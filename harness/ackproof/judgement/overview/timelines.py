"""The sends, reads and transactions of a run in time bins, in several widths from one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ackproof.judgement.evidence import ABSENT, Numbers, int64
from ackproof.runs.overview import Timeline
from ackproof_spark.by_time import BUCKETS, LATENCY, LOG_RATIO, Cells, Grouping
from ackproof_spark.tables import Outcome

#: Maximum numbers of bins for a run's page, the catalogue's plots, and a page of many runs.
BINS = (600, 120, 60)

_NICE_WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
_SENDS_PER_BIN = 20

_TRANSACTION_ENDS = ("committed", "aborted", "unknown")

#: Evaluates a grouping over a table of the run; None if the table has no rows.
Ask = Callable[[Grouping], pa.Table | None]

_Floats = NDArray[np.float64]


def timelines(
    ask: Ask, *, origin: int, seconds: float, sends: int, lost_at: Numbers
) -> list[Timeline]:
    """Return the timelines, the finest first.

    `origin` is in microseconds since 1970, as are the acks of lost records in `lost_at`. `sends`
    is the number of rows in the ledger.
    """
    widths = sorted({_width(seconds, sends, limit) for limit in BINS})
    cells = Cells(origin=origin, width=math.gcd(*(round(width * 1e6) for width in widths)))
    counted, read, ended = ask(cells.sends()), ask(cells.read_ends()), ask(cells.transactions())
    acked = ask(cells.acked_ends()) if read is not None and read.num_rows else None
    lost = np.maximum(lost_at[lost_at != ABSENT] - origin, 0) // cells.width
    return [
        _timeline(
            _Bins.of(width, seconds=seconds, cell=cells.width),
            counted=counted,
            lost=lost,
            read=_rows(read),
            acked=_rows(acked),
            ended=_rows(ended),
        )
        for width in widths
    ]


def _width(seconds: float, sends: int, limit: int) -> float:
    """Return a round width for at most `limit` bins of about `_SENDS_PER_BIN` sends."""
    least = max(seconds / limit, _SENDS_PER_BIN * seconds / max(sends, 1))
    least = min(least, seconds / 10)
    nice = next((nice for nice in _NICE_WIDTHS if nice >= least), None)
    return float(nice or np.ceil(least / 3600) * 3600)


def _rows(answer: pa.Table | None) -> list[dict[str, Any]]:
    return [] if answer is None else answer.to_pylist()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bins:
    """`count` bins of `width` seconds, each of `cells` cells."""

    width: float
    count: int
    cells: int

    @classmethod
    def of(cls, width: float, *, seconds: float, cell: int) -> _Bins:
        return cls(width=width, count=int(seconds / width) + 1, cells=round(width * 1e6) // cell)

    def __call__(self, cells: Numbers | int) -> Any:
        """Return the bin of each cell; times outside the axis fall into its first or last bin."""
        return np.clip(cells // self.cells, 0, self.count - 1)

    def total(self, cells: Numbers, counts: Numbers) -> list[int]:
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self(cells), counts)
        return total.tolist()


def _timeline(
    bins: _Bins,
    *,
    counted: pa.Table | None,
    lost: Numbers,
    read: Sequence[dict[str, Any]],
    acked: Sequence[dict[str, Any]],
    ended: Sequence[dict[str, Any]],
) -> Timeline:
    if counted is None:
        counted = pa.table({"kind": pa.array([], pa.string())})
    kind = np.asarray(counted["kind"].to_pylist(), dtype=object)
    of = {name: int64(counted[name]) for name in counted.column_names if name != "kind"}
    timed = of["cell"] != ABSENT
    counts = {}
    for outcome in Outcome:
        chosen = (kind == str(outcome)) & timed
        counts[outcome] = bins.total(of["cell"][chosen], of["count"][chosen])
    latencies = {name: column[kind == LATENCY] for name, column in of.items()}
    by_outcome = {
        outcome: [row for row in ended if row["outcome"] == outcome]
        for outcome in _TRANSACTION_ENDS
    }
    return Timeline(
        width=bins.width,
        acked=counts[Outcome.ACKED],
        failed=counts[Outcome.FAILED],
        unknown=counts[Outcome.UNKNOWN],
        lost=bins.total(lost, np.ones_like(lost)),
        **_latencies(bins, latencies),
        untimed=int(of["count"][~timed & (kind != LATENCY)].sum()),
        unread=_unread(bins, acked, read),
        transactions={outcome: _ends(bins, rows) for outcome, rows in by_outcome.items()}
        if ended
        else {},
        untimed_transactions=sum(row["count"] for row in ended if row["cell"] is None),
    )


def _ends(bins: _Bins, rows: Sequence[dict[str, Any]]) -> list[int]:
    timed = [(row["cell"], row["count"]) for row in rows if row["cell"] is not None]
    cells, counts = np.array(timed, dtype=np.int64).reshape(-1, 2).T
    return bins.total(cells, counts)


def _latencies(bins: _Bins, of: dict[str, Numbers]) -> dict[str, list[float | None]]:
    """Return quantiles and the maximum of each bin, from the counts of latency buckets."""
    at = bins(of["cell"])
    histogram = np.zeros((bins.count, BUCKETS), dtype=np.int64)
    np.add.at(histogram, (at, of["bucket"]), of["count"])
    least, most = np.full(bins.count, np.inf), np.full(bins.count, -np.inf)
    np.minimum.at(least, at, of["least"] / 1000)
    np.maximum.at(most, at, of["most"] / 1000)
    return {
        "p50": _numbers(_quantile(histogram, 0.50, least, most)),
        "p99": _numbers(_quantile(histogram, 0.99, least, most)),
        "longest": _numbers(most),
    }


def _quantile(histogram: Numbers, share: float, least: _Floats, most: _Floats) -> _Floats:
    """Return a quantile of each row in milliseconds; NaN for empty rows."""
    cumulated = histogram.cumsum(axis=1)
    total = cumulated[:, -1]
    rank = np.ceil(total * share).astype(np.int64)
    bucket = (cumulated < rank[:, None]).sum(axis=1)
    middle = np.exp((bucket + 0.5) * LOG_RATIO) / 1000
    clipped = np.minimum(np.maximum(middle, least), most)
    return np.where(total > 0, clipped, np.nan)


def _numbers(values: _Floats) -> list[float | None]:
    """Return None for NaN and infinity."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values.tolist()]


def _unread(
    bins: _Bins, acked: Sequence[dict[str, Any]], read: Sequence[dict[str, Any]]
) -> dict[str, list[int]]:
    """Return, for each group, the acked offsets that it has not read at the end of each bin.

    Before its first read these are all from the first acked one on, as in the warehouse
    (`timelines.lag`): a topic that was there before the run does not begin at 0.
    """
    acked_ends, unread = _end_offsets(bins, acked), {}
    begins: dict[tuple[str, int], int] = {}
    for row in acked:
        partition = row["topic"], row["partition"]
        begins[partition] = min(begins.get(partition, row["begin"]), row["begin"])
    by_group = sorted(read, key=lambda row: row["group"])
    for group, rows in groupby(by_group, key=lambda row: row["group"]):
        read_ends, behind = _end_offsets(bins, list(rows)), np.zeros(bins.count, dtype=np.int64)
        for partition, end in acked_ends.items():
            read_end = np.maximum(read_ends.get(partition, 0), begins[partition])
            behind += np.maximum(0, end - read_end)
        unread[group] = behind.tolist()
    return unread


def _end_offsets(bins: _Bins, rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int], Numbers]:
    """Return one past the highest offset of each partition so far, by bin."""
    ends: dict[tuple[str, int], Numbers] = {}
    for row in rows:
        end = ends.setdefault(
            (row["topic"], row["partition"]), np.zeros(bins.count, dtype=np.int64)
        )
        at = bins(row["cell"])
        end[at] = max(end[at], row["end"])
    return {partition: np.maximum.accumulate(end) for partition, end in ends.items()}
