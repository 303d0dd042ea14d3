"""The plots of a run's consumers and transactions: how far behind, and how transactions ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ackproof.report import wording
from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.data.tables import Numbers
from ackproof.report.plots.figure import Figure, Key, broker_colour
from ackproof.report.plots.time_axis import band_height, bin_starts, timed_layout
from ackproof_spark.tables import LOCATION, Outcome

_HEIGHT = 190
#: More groups than these are not told apart.
_MAX_GROUPS = 6
_ENDS = {"committed": "@acked", "aborted": "@failed", "unknown": "@unknown"}

_Place = tuple[str, int]


def figures(run: Run) -> list[Figure]:
    """Return the plots for which the run has clients and data, in reading order."""
    if run.sends is None or run.origin is None:
        return []
    made = [_unread(run, run.sends), _transactions(run, run.sends)]
    return [figure for figure in made if figure is not None]


def _unread(run: Run, sends: Sends) -> Figure | None:
    """Show how many acked offsets each consumer group has not read yet."""
    groups = _read_up_to(run, sends)
    if not groups:
        return None
    acked = _acked_up_to(run, sends)
    behind = {
        group: sum(
            (
                np.maximum(0, end - read.get(place, np.zeros_like(end)))
                for place, end in acked.items()
            ),
            start=np.zeros(sends.acked.size, dtype=np.int64),
        )
        for group, read in sorted(groups.items())[:_MAX_GROUPS]
    }
    colours = {group: broker_colour(number) for number, group in enumerate(behind, start=1)}
    more = len(groups) - len(behind)
    return Figure(
        name="unread",
        title="Acked, not read yet",
        caption="Offsets that were acked and that a group's consumers had not come to by then, in "
        f"all partitions; bins of {sends.width:g} s. What stays in the end was lost, or never read."
        + (f" {more} more groups are not drawn." if more else ""),
        spoken="; ".join(
            f"group {group}: at most {wording.count(int(values.max()))} behind, "
            f"{wording.count(int(values[-1]))} in the end"
            for group, values in behind.items()
        )
        + ".",
        height=_HEIGHT + band_height(run),
        keys=tuple(Key(colour=colours[group], text=group) for group in behind),
        traces=[_steps(sends, values, colours[group], group) for group, values in behind.items()],
        layout=timed_layout(
            run,
            height=_HEIGHT + band_height(run),
            bands=True,
            yaxis={"rangemode": "tozero", "tickformat": ",~r", "nticks": 5},
        ),
    )


def _transactions(run: Run, sends: Sends) -> Figure | None:
    """Show how many transactions had ended by then, by how they did: a plateau is a standstill."""
    counts = {outcome: np.zeros(sends.acked.size, dtype=np.int64) for outcome in _ENDS}
    untimed = 0
    for batch in _batches(run, "transactions", ["outcome", "ended_at"]):
        timed = np.asarray(pc.is_valid(batch["ended_at"]))
        untimed += int(np.count_nonzero(~timed))
        for outcome in counts:
            chosen = pa.array(timed & np.asarray(pc.equal(batch["outcome"], outcome)))
            where = _bins(run, sends, batch["ended_at"].filter(chosen))
            counts[outcome] += np.bincount(where, minlength=sends.acked.size)
    total = sum(int(values.sum()) for values in counts.values())
    if not total:
        return None
    drawn = {outcome: values for outcome, values in counts.items() if values.any()}
    note = f" {wording.count(untimed)} had no end that is known." if untimed else ""
    return Figure(
        name="transactions",
        title="Transactions",
        caption=f"Transactions that had ended, and how; bins of {sends.width:g} s.{note}",
        spoken=", ".join(
            f"{wording.count(int(values.sum()))} {outcome}" for outcome, values in drawn.items()
        )
        + f".{note}",
        height=_HEIGHT + band_height(run),
        keys=tuple(Key(colour=_ENDS[outcome], text=outcome) for outcome in drawn),
        traces=[
            _steps(sends, values.cumsum(), _ENDS[outcome], outcome)
            for outcome, values in drawn.items()
        ],
        layout=timed_layout(
            run,
            height=_HEIGHT + band_height(run),
            bands=True,
            yaxis={"rangemode": "tozero", "tickformat": ",~r", "nticks": 5},
        ),
    )


def _steps(sends: Sends, values: Numbers, colour: str, text: str) -> dict[str, Any]:
    """Return a stepped line; `text` is what the pointer is told."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": bin_starts(sends),
        "y": values.tolist(),
        "line": {"color": colour, "width": 1.5, "shape": "hv"},
        "hovertemplate": f"%{{y:,.0f}} {text}<extra></extra>",
    }


def _acked_up_to(run: Run, sends: Sends) -> dict[_Place, Numbers]:
    """Return the end of what was acked of each partition, at the end of each bin."""
    ends: dict[_Place, Numbers] = {}
    columns = ["topic", "partition", "outcome", "offset", "resolved_at"]
    for batch in _batches(run, "ledger", columns):
        known = pc.and_(pc.is_valid(batch["offset"]), pc.is_valid(batch["resolved_at"]))
        acked = batch.filter(pc.and_(known, pc.equal(batch["outcome"], str(Outcome.ACKED))))
        _raise(ends, run, sends, acked, "resolved_at")
    return _so_far(ends)


def _read_up_to(run: Run, sends: Sends) -> dict[str, dict[_Place, Numbers]]:
    """Return the same of what each group has read."""
    groups: dict[str, dict[_Place, Numbers]] = defaultdict(dict)
    columns = ["group", "topic", "partition", "offset", "read_at"]
    for batch in _batches(run, "reads", columns):
        for group in pc.unique(batch["group"]).to_pylist():
            own = batch.filter(pc.equal(batch["group"], group))
            _raise(groups[group], run, sends, own, "read_at")
    return {group: _so_far(ends) for group, ends in groups.items()}


def _raise(
    ends: dict[_Place, Numbers], run: Run, sends: Sends, batch: pa.RecordBatch, when: str
) -> None:
    """Raise each partition's end, in the bin of `when`, to one past the offset."""
    where = _bins(run, sends, batch[when])
    offsets = batch["offset"].to_numpy(zero_copy_only=False).astype(np.int64)
    partitions = batch["partition"].to_numpy(zero_copy_only=False)
    topics = np.asarray(batch["topic"].to_pylist(), dtype=object)
    for topic in set(topics.tolist()):
        for partition in np.unique(partitions[topics == topic]).tolist():
            chosen = (topics == topic) & (partitions == partition)
            end = ends.setdefault((topic, partition), np.zeros(sends.acked.size, dtype=np.int64))
            np.maximum.at(end, where[chosen], offsets[chosen] + 1)


def _so_far(ends: dict[_Place, Numbers]) -> dict[_Place, Numbers]:
    return {place: np.maximum.accumulate(end) for place, end in ends.items()}


def _bins(run: Run, sends: Sends, times: pa.Array) -> Numbers:
    """Return the bin of each time; what is outside the axis is put at its end."""
    assert run.origin is not None
    origin = int(pa.scalar(run.origin, pa.timestamp("us", tz="UTC")).value)
    micros = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    bins: Numbers = np.clip((micros - origin) // round(sends.width * 1e6), 0, sends.acked.size - 1)
    return bins


def _batches(run: Run, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table; none if it is not there, or damaged (the page says so)."""
    path = run.directory / LOCATION[table]
    if not path.exists():
        return
    try:
        yield from ds.dataset(path, format="parquet").to_batches(columns=columns)
    except (pa.ArrowException, OSError):
        return
