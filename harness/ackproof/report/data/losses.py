"""The lost records of a run: number, positions, and groups of equal losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.report.data.partitions import MAX_LANES
from ackproof.report.data.tables import (
    ABSENT,
    Numbers,
    RunTables,
    int64,
    moment_of,
)
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import LOCATION

#: Maximum number of groups of lost records that a report describes.
MAX_GROUPS = 8

_MAX_MARKS = 600
#: Number of positions that are distinguishable across the width of a plot.
_DISTINCT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`count` lost records at the positions `first` to `last`, inclusive."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLane:
    """The lost records of a partition by acked offset, or by sequence without an offset (acks=0).

    `end` is one past the last position of the lane: the end of the final log, or of the lost
    records beyond it.
    """

    topic: str
    partition: int
    producer: int | None
    by: Literal["offset", "sequence"]
    count: int
    marks: tuple[Mark, ...]
    log_end: int | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecord:
    """A row of the `anomalies` table."""

    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    resolved_at: datetime | None
    window: int | None
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossGroup:
    """The lost records of one partition that were acked under the same fault; `first` by time."""

    count: int
    first_offset: int | None
    last_offset: int | None
    first_acked_at: datetime | None
    last_acked_at: datetime | None
    first: LostRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The lost records as the report shows them."""

    count: int
    lanes: tuple[LossLane, ...]
    #: Number of lanes that are not in `lanes`, and of their lost records.
    hidden_lanes: int
    hidden_count: int
    groups: tuple[LossGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNumbers:
    """Columns of numbers with one entry for each lost record; `row` is its row in the table."""

    partitions: list[tuple[str, int]]
    partition: Numbers
    producer: Numbers
    sequence: Numbers
    offset: Numbers
    window: Numbers
    times: Numbers
    row: Numbers


def read_lost(tables: RunTables) -> LostNumbers | None:
    """Return the lost records, or None if the run was not analysed."""
    if not (tables.directory / LOCATION["anomalies"]).exists():
        tables.note(f"{LOCATION['anomalies']}: missing: the run was not analysed.")
        return None
    partitions: dict[tuple[str, int], int] = {}
    chunks: dict[str, list[Numbers]] = {
        name: [np.zeros(0, dtype=np.int64)]
        for name in ("partition", "producer", "sequence", "offset", "window", "times", "row")
    }
    columns = ("anomaly", "topic", "partition", "producer", "sequence", "offset", "sent_at")
    first_row = 0
    for batch in tables.batches("anomalies", (*columns, "resolved_at", "window")):
        chosen = np.flatnonzero(np.asarray(pc.equal(batch["anomaly"], Anomaly.LOST.value)))
        rows, first_row = chosen + first_row, first_row + batch.num_rows
        if not chosen.size:
            continue
        lost = batch.take(pa.array(chosen))
        topic = lost["topic"].dictionary_encode()
        number = int64(lost["partition"])
        local = np.asarray(topic.indices).astype(np.int64)
        key = np.zeros(chosen.size, dtype=np.int64)
        for topic_index, partition in {*zip(local.tolist(), number.tolist(), strict=True)}:
            name = (topic.dictionary[topic_index].as_py(), partition)
            index = partitions.setdefault(name, len(partitions))
            key[(local == topic_index) & (number == partition)] = index
        sent, resolved = int64(lost["sent_at"]), int64(lost["resolved_at"])
        chunks["partition"].append(key)
        chunks["times"].append(np.where(resolved != ABSENT, resolved, sent))
        chunks["row"].append(rows.astype(np.int64))
        for column in ("producer", "sequence", "offset", "window"):
            chunks[column].append(int64(lost[column]))
    return LostNumbers(
        partitions=list(partitions),
        **{name: np.concatenate(parts) for name, parts in chunks.items()},
    )


def losses_of(tables: RunTables, lost: LostNumbers, *, last_sequence: Mapping[int, int]) -> Losses:
    """Aggregate the lost records; `last_sequence` is the last sequence of each producer."""
    log_ends: dict[tuple[str, int], int] = {}
    if not tables.note_absence("partition_ends"):
        for row in tables.rows("partition_ends", ("topic", "partition", "end_offset")):
            log_ends[row["topic"], row["partition"]] = row["end_offset"]
    lanes = _loss_lanes(lost, log_ends, last_sequence)
    lanes.sort(key=lambda lane: (-lane.count, lane.topic, lane.partition, lane.producer or 0))
    shown, hidden = lanes[:MAX_LANES], lanes[MAX_LANES:]
    shown.sort(key=lambda lane: (lane.topic, lane.partition, lane.producer or 0))
    return Losses(
        count=int(lost.row.size),
        lanes=tuple(shown),
        hidden_lanes=len(hidden),
        hidden_count=sum(lane.count for lane in hidden),
        groups=_groups(tables, lost),
    )


def read_groups(directory: Path) -> tuple[LossGroup, ...]:
    """Return the groups of lost records of a run; empty if it was not analysed."""
    tables = RunTables(directory)
    lost = read_lost(tables)
    return () if lost is None else _groups(tables, lost)


def _loss_lanes(
    lost: LostNumbers, log_ends: Mapping[tuple[str, int], int], last_sequence: Mapping[int, int]
) -> list[LossLane]:
    lanes = []
    for index, (topic, partition) in enumerate(lost.partitions):
        here = lost.partition == index
        offsets = lost.offset[here & (lost.offset != ABSENT)]
        log_end = log_ends.get((topic, partition))
        if offsets.size:
            marks = _merge(np.sort(offsets))
            lanes.append(
                LossLane(
                    topic=topic,
                    partition=partition,
                    producer=None,
                    by="offset",
                    count=int(offsets.size),
                    marks=marks,
                    log_end=log_end,
                    end=max(marks[-1].last + 1, log_end or 0),
                )
            )
        without = here & (lost.offset == ABSENT)
        for producer in np.unique(lost.producer[without]).tolist():
            sequences = lost.sequence[without & (lost.producer == producer)]
            marks = _merge(np.sort(sequences))
            lanes.append(
                LossLane(
                    topic=topic,
                    partition=partition,
                    producer=None if producer == ABSENT else producer,
                    by="sequence",
                    count=int(sequences.size),
                    marks=marks,
                    log_end=None,
                    end=max(marks[-1].last, last_sequence.get(producer, 0)) + 1,
                )
            )
    return lanes


def _merge(positions: Numbers, limit: int = _MAX_MARKS // MAX_LANES) -> tuple[Mark, ...]:
    """Return at most `limit` marks for sorted positions.

    Adjacent positions share a mark. If there are too many marks, gaps that are too small to see are
    bridged, then all but the widest gaps. The count of a mark that bridges a gap is smaller than
    its width.
    """
    gaps = np.diff(positions)
    splits = np.flatnonzero(gaps > 1)
    if splits.size >= limit:
        splits = np.flatnonzero(gaps > positions[-1] // _DISTINCT)
    if splits.size >= limit:
        widest = np.argsort(gaps[splits], kind="stable")[-(limit - 1) :]
        splits = np.sort(splits[widest])
    firsts = np.concatenate(([0], splits + 1))
    lasts = np.concatenate((splits, [positions.size - 1]))
    return tuple(
        Mark(first=int(positions[a]), last=int(positions[b]), count=int(b - a + 1))
        for a, b in zip(firsts, lasts, strict=True)
    )


def _groups(tables: RunTables, lost: LostNumbers) -> tuple[LossGroup, ...]:
    """Return the `MAX_GROUPS` groups with the most records, in order of time."""
    if not lost.row.size:
        return ()
    order = np.lexsort((lost.times, lost.window, lost.partition))
    group = np.stack((lost.partition[order], lost.window[order]))
    starts = np.flatnonzero(np.any(np.diff(group, axis=1), axis=0)) + 1
    largest = sorted(np.split(order, starts), key=lambda members: -members.size)[:MAX_GROUPS]
    firsts = _lost_records(tables, sorted(int(lost.row[members[0]]) for members in largest))
    groups = []
    for members in sorted(largest, key=lambda members: int(lost.times[members[0]])):
        offsets = lost.offset[members]
        offsets = offsets[offsets != ABSENT]
        times = [time for time in lost.times[members[[0, -1]]].tolist() if time != ABSENT]
        groups.append(
            LossGroup(
                count=int(members.size),
                first_offset=int(offsets.min()) if offsets.size else None,
                last_offset=int(offsets.max()) if offsets.size else None,
                first_acked_at=moment_of(min(times, default=None)),
                last_acked_at=moment_of(max(times, default=None)),
                first=firsts[int(lost.row[members[0]])],
            )
        )
    return tuple(groups)


def _lost_records(tables: RunTables, rows: Sequence[int]) -> dict[int, LostRecord]:
    """Return the records in these rows of the table."""
    columns = ("topic", "partition", "producer", "sequence", "offset", "resolved_at", "window")
    found = {}
    before = 0
    for batch in tables.batches("anomalies", (*columns, "found")):
        here = [row for row in rows if before <= row < before + batch.num_rows]
        taken = batch.take(pa.array([row - before for row in here], type=pa.int64()))
        for row, record in zip(here, taken.to_pylist(), strict=True):
            found[row] = LostRecord(**record)
        before += batch.num_rows
    return found
