"""The consumers and transactions of a run by time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.data.tables import Numbers, micros_of
from ackproof_spark.tables import LOCATION, Outcome

#: The outcomes of transactions.
TRANSACTION_ENDS = ("committed", "aborted", "unknown")

#: One past the last offset of each partition (topic, number), by time bin.
_EndOffsets = dict[tuple[str, int], Numbers]


def unread_offsets(run: Run, sends: Sends) -> dict[str, Numbers]:
    """Return, for each consumer group, the acked offsets in all partitions that it has not read.

    One value for each time bin of `sends`, at the end of the bin.
    """
    acked = _acked_up_to(run, sends)
    unread = {}
    for group, read in sorted(_read_up_to(run, sends).items()):
        unread[group] = np.zeros(sends.acked.size, dtype=np.int64)
        for partition, end in acked.items():
            unread[group] += np.maximum(0, end - read.get(partition, 0))
    return unread


def transaction_ends(run: Run, sends: Sends) -> tuple[dict[str, Numbers], int]:
    """Return the ended transactions by outcome and time bin, and the number without an end."""
    counts = {outcome: np.zeros(sends.acked.size, dtype=np.int64) for outcome in TRANSACTION_ENDS}
    untimed = 0
    for batch in _batches(run, "transactions", ["outcome", "ended_at"]):
        timed = np.asarray(pc.is_valid(batch["ended_at"]))
        untimed += int(np.count_nonzero(~timed))
        for outcome in counts:
            chosen = pa.array(timed & np.asarray(pc.equal(batch["outcome"], outcome)))
            bins = _bins(run, sends, batch["ended_at"].filter(chosen))
            counts[outcome] += np.bincount(bins, minlength=sends.acked.size)
    return counts, untimed


def _acked_up_to(run: Run, sends: Sends) -> _EndOffsets:
    """Return one past the highest acked offset of each partition, at the end of each bin."""
    ends: _EndOffsets = {}
    columns = ["topic", "partition", "outcome", "offset", "resolved_at"]
    for batch in _batches(run, "ledger", columns):
        known = pc.and_(pc.is_valid(batch["offset"]), pc.is_valid(batch["resolved_at"]))
        acked = batch.filter(pc.and_(known, pc.equal(batch["outcome"], str(Outcome.ACKED))))
        _raise(ends, run, sends, acked, "resolved_at")
    return _cumulated(ends)


def _read_up_to(run: Run, sends: Sends) -> dict[str, _EndOffsets]:
    """Return one past the highest offset that each group has read, likewise."""
    groups: dict[str, _EndOffsets] = defaultdict(dict)
    columns = ["group", "topic", "partition", "offset", "read_at"]
    for batch in _batches(run, "reads", columns):
        for group in pc.unique(batch["group"]).to_pylist():
            own = batch.filter(pc.equal(batch["group"], group))
            _raise(groups[group], run, sends, own, "read_at")
    return {group: _cumulated(ends) for group, ends in groups.items()}


def _raise(
    ends: _EndOffsets, run: Run, sends: Sends, batch: pa.RecordBatch, time_column: str
) -> None:
    """Raise each partition's end, in the bin of `time_column`, to one past the offset."""
    bins = _bins(run, sends, batch[time_column])
    offsets = batch["offset"].to_numpy(zero_copy_only=False).astype(np.int64)
    partitions = batch["partition"].to_numpy(zero_copy_only=False)
    topics = np.asarray(batch["topic"].to_pylist(), dtype=object)
    for topic in set(topics.tolist()):
        for partition in np.unique(partitions[topics == topic]).tolist():
            chosen = (topics == topic) & (partitions == partition)
            end = ends.setdefault((topic, partition), np.zeros(sends.acked.size, dtype=np.int64))
            np.maximum.at(end, bins[chosen], offsets[chosen] + 1)


def _cumulated(ends: _EndOffsets) -> _EndOffsets:
    return {partition: np.maximum.accumulate(end) for partition, end in ends.items()}


def _bins(run: Run, sends: Sends, times: pa.Array) -> Numbers:
    """Return the bin of each time; times outside the axis fall into its first or last bin."""
    assert run.origin is not None
    micros = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    bins: Numbers = np.clip(
        (micros - micros_of(run.origin)) // round(sends.width * 1e6), 0, sends.acked.size - 1
    )
    return bins


def _batches(run: Run, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table; none if it is missing or damaged, which `read_run` notes."""
    path = run.directory / LOCATION[table]
    if not path.exists():
        return
    try:
        yield from ds.dataset(path, format="parquet").to_batches(columns=columns)
    except (pa.ArrowException, OSError):
        return
