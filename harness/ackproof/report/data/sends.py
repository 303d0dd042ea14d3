"""The sends of a run by time, from its ledger.

For each time bin counts, quantiles and extremes are kept. p50 and p99 come from a histogram with
buckets of 2 % width, so their error is at most 1 %; minimum and maximum are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from ackproof.report.data.tables import (
    ABSENT,
    Floats,
    Numbers,
    RunTables,
    int64,
)
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome

_NICE_WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
_SENDS_PER_BIN = 20

# Latency buckets: 2 % wide, from 1 microsecond to about three hours.
_LOG_RATIO = float(np.log(1.02))
_BUCKETS = 1170

_LAST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The ledger by time, in bins of `width` seconds; the first starts at 0.

    A send counts at the time of its outcome, or of the send if its outcome has no time. Latencies
    are of acked sends at the time of the send, in milliseconds; NaN in a bin without any.
    """

    width: float
    acked: Numbers
    failed: Numbers
    unknown: Numbers
    lost: Numbers
    minimum: Floats
    p50: Floats
    p99: Floats
    maximum: Floats
    #: Number of sends without any time.
    untimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerExtent:
    """Rows of the ledger, first and last time (microseconds), last sequence of each producer."""

    rows: int
    first: int | None
    last: int | None
    last_sequence: dict[int, int]


def read_extent(tables: RunTables) -> LedgerExtent:
    rows, low, high = 0, _LAST, ABSENT
    last_sequence: dict[int, int] = {}
    tables.note_absence("ledger")
    for batch in tables.batches("ledger", ["producer", "sequence", "sent_at", "resolved_at"]):
        rows += batch.num_rows
        for column in ("sent_at", "resolved_at"):
            times = int64(batch[column])
            low = min(low, int(times.min(initial=_LAST, where=times != ABSENT)))
            high = max(high, int(times.max(initial=ABSENT)))
        producers, sequences = int64(batch["producer"]), int64(batch["sequence"])
        for producer in np.unique(producers).tolist():
            last = int(sequences[producers == producer].max())
            last_sequence[producer] = max(last, last_sequence.get(producer, 0))
    timed = high != ABSENT
    return LedgerExtent(
        rows=rows,
        first=low if timed else None,
        last=high if timed else None,
        last_sequence=last_sequence,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Time bins of equal width from `origin` (microseconds since 1970)."""

    origin: int
    seconds: float
    limit: int

    def width(self, sends: int) -> float:
        """Return a round width with at most `limit` bins, and about twenty sends in each."""
        least = max(self.seconds / self.limit, _SENDS_PER_BIN * self.seconds / max(sends, 1))
        least = min(least, self.seconds / 10)
        for nice in _NICE_WIDTHS:
            if nice >= least:
                return float(nice)
        return float(np.ceil(least / 3600) * 3600)


def read_sends(tables: RunTables, bins: Bins, *, rows: int, lost_at: Numbers) -> Sends:
    """Aggregate the ledger of `rows` sends, without those of the probe.

    `lost_at` are the acks of lost records.
    """
    width = bins.width(rows)
    count = int(bins.seconds / width) + 1
    counts = {outcome: np.zeros(count, dtype=np.int64) for outcome in Outcome}
    histogram = np.zeros(count * _BUCKETS, dtype=np.int64)
    minimum = np.full(count, np.inf)
    maximum = np.full(count, -np.inf)
    untimed = 0

    def bin_of(times: Numbers) -> Numbers:
        index = (times - bins.origin) // round(width * 1e6)
        return np.clip(index, 0, count - 1)

    for rows_of_all in tables.batches("ledger", ["producer", "outcome", "sent_at", "resolved_at"]):
        batch = rows_of_all.filter(pc.less(rows_of_all["producer"], PROBE_PRODUCERS))
        sent, resolved = int64(batch["sent_at"]), int64(batch["resolved_at"])
        known = np.where(resolved != ABSENT, resolved, sent)
        timed = known != ABSENT
        untimed += int(np.count_nonzero(~timed))
        outcome = batch["outcome"]
        for kind in Outcome:
            chosen = np.asarray(pc.equal(outcome, kind.value)) & timed
            counts[kind] += np.bincount(bin_of(known[chosen]), minlength=count)
        measured = (
            np.asarray(pc.equal(outcome, Outcome.ACKED.value))
            & (sent != ABSENT)
            & (resolved != ABSENT)
        )
        if not measured.any():
            continue
        where = bin_of(sent[measured])
        micros = (resolved - sent)[measured]
        bucket = np.log(np.maximum(micros, 1)) / _LOG_RATIO
        bucket = np.clip(bucket.astype(np.int64), 0, _BUCKETS - 1)
        histogram += np.bincount(where * _BUCKETS + bucket, minlength=histogram.size)
        np.minimum.at(minimum, where, micros / 1000)
        np.maximum.at(maximum, where, micros / 1000)

    minimum[np.isinf(minimum)] = np.nan
    maximum[np.isinf(maximum)] = np.nan
    by_bin = histogram.reshape(count, _BUCKETS)
    return Sends(
        width=width,
        acked=counts[Outcome.ACKED],
        failed=counts[Outcome.FAILED],
        unknown=counts[Outcome.UNKNOWN],
        lost=np.bincount(bin_of(lost_at[lost_at != ABSENT]), minlength=count),
        minimum=minimum,
        p50=_quantile(by_bin, 0.50, minimum, maximum),
        p99=_quantile(by_bin, 0.99, minimum, maximum),
        maximum=maximum,
        untimed=untimed,
    )


def _quantile(histogram: Numbers, share: float, minimum: Floats, maximum: Floats) -> Floats:
    """Return a quantile of each row in milliseconds; NaN for empty rows."""
    cumulated = histogram.cumsum(axis=1)
    total = cumulated[:, -1]
    rank = np.ceil(total * share).astype(np.int64)
    bucket = (cumulated < rank[:, None]).sum(axis=1)
    middle = np.exp((bucket + 0.5) * _LOG_RATIO) / 1000
    return np.where(total > 0, np.clip(middle, minimum, maximum), np.nan)
