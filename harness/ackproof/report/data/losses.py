"""The lost records of a run: how many, where, and the most telling ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
)
from ackproof_spark.tables import LOCATION, Anomaly

#: How many lost records a report tells in full.
TELLING = 8

_MAX_MARKS = 600
_DISTINCT = 500  # places that can be told apart across a plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`count` lost records at the positions `first` to `last`, both included."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLane:
    """Where a partition lost records: by acked offset, or by sequence where no offset was told.

    `end` is one past the last position that the lane reaches: the end of the final log, or of
    what was lost beyond it.
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
    """One lost record with its evidence, as in the `anomalies` table."""

    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    resolved_at: datetime | None
    window: int | None
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """All lost records: how many, where, and the most telling ones."""

    count: int
    lanes: tuple[LossLane, ...]
    #: Lanes that are not among `lanes`, and how many records they lost.
    hidden_lanes: int
    hidden_count: int
    telling: tuple[LostRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNumbers:
    """Every lost record as numbers, one entry each; `row` is its place in the table."""

    partitions: list[tuple[str, int]]
    partition: Numbers
    producer: Numbers
    sequence: Numbers
    offset: Numbers
    window: Numbers
    times: Numbers
    row: Numbers


def read_lost(tables: RunTables) -> LostNumbers | None:
    """Return the lost records; None if the run was not analysed."""
    if not (tables.directory / LOCATION["anomalies"]).exists():
        tables.note(f"{LOCATION['anomalies']}: not there: the run was not analysed.")
        return None
    partitions: dict[tuple[str, int], int] = {}
    chunks: dict[str, list[Numbers]] = {
        name: [np.zeros(0, dtype=np.int64)]
        for name in ("partition", "producer", "sequence", "offset", "window", "times", "row")
    }
    columns = ("anomaly", "topic", "partition", "producer", "sequence", "offset", "sent_at")
    before = 0
    for batch in tables.batches("anomalies", (*columns, "resolved_at", "window")):
        chosen = np.flatnonzero(np.asarray(pc.equal(batch["anomaly"], Anomaly.LOST.value)))
        rows, before = chosen + before, before + batch.num_rows
        if not chosen.size:
            continue
        found = batch.take(pa.array(chosen))
        topic = found["topic"].dictionary_encode()
        number = int64(found["partition"])
        local = np.asarray(topic.indices).astype(np.int64)
        key = np.zeros(chosen.size, dtype=np.int64)
        for topic_index, partition in {*zip(local.tolist(), number.tolist(), strict=True)}:
            name = (topic.dictionary[topic_index].as_py(), partition)
            place = partitions.setdefault(name, len(partitions))
            key[(local == topic_index) & (number == partition)] = place
        sent, resolved = int64(found["sent_at"]), int64(found["resolved_at"])
        chunks["partition"].append(key)
        chunks["times"].append(np.where(resolved != ABSENT, resolved, sent))
        chunks["row"].append(rows.astype(np.int64))
        for column in ("producer", "sequence", "offset", "window"):
            chunks[column].append(int64(found[column]))
    return LostNumbers(
        partitions=list(partitions),
        **{name: np.concatenate(parts) for name, parts in chunks.items()},
    )


def losses_of(tables: RunTables, lost: LostNumbers, *, last_sequence: Mapping[int, int]) -> Losses:
    """Return what a report shows of the lost records.

    `last_sequence` is the last that each producer sent.
    """
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
        telling=_telling(tables, lost),
    )


def read_telling(directory: Path) -> tuple[LostRecord, ...]:
    """Return the most telling lost records of a run directory; none if it was not analysed."""
    tables = RunTables(directory)
    lost = read_lost(tables)
    return () if lost is None else _telling(tables, lost)


def _loss_lanes(
    lost: LostNumbers, log_ends: Mapping[tuple[str, int], int], last_sequence: Mapping[int, int]
) -> list[LossLane]:
    lanes = []
    for place, (topic, partition) in enumerate(lost.partitions):
        here = lost.partition == place
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

    Neighbours share a mark. If that leaves too many, so do those nearer to each other than an eye
    can tell, and then all but those at the widest gaps. The count of a mark that bridges a gap is
    smaller than its width.
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


def _telling(tables: RunTables, lost: LostNumbers) -> tuple[LostRecord, ...]:
    """Return the lost records that say most: from every partition and fault the first and last.

    Groups with more losses come first; then those in between, until there are `TELLING`.
    """
    position = np.where(lost.offset != ABSENT, lost.offset, lost.sequence)
    order = np.lexsort((position, lost.window, lost.partition))
    group = np.stack((lost.partition[order], lost.window[order]))
    if not order.size:
        return ()
    starts = np.flatnonzero(np.any(np.diff(group, axis=1, prepend=group[:, :1] - 1), axis=0))
    groups = sorted(np.split(order, starts[1:]), key=lambda members: -members.size)
    wanted: dict[int, None] = {}
    for turn in range(TELLING):
        for members in groups:
            picks = np.unique(np.linspace(0, members.size - 1, TELLING).astype(np.int64))
            picks = np.concatenate((picks[:1], picks[:0:-1]))
            if turn < picks.size and len(wanted) < TELLING:
                wanted[int(lost.row[members[picks[turn]]])] = None
    return tuple(
        sorted(
            _take_lost(tables, sorted(wanted)),
            key=lambda record: (
                record.resolved_at or datetime.max.replace(tzinfo=UTC),
                record.topic,
                record.partition,
                record.sequence or 0,
            ),
        )
    )


def _take_lost(tables: RunTables, rows: Sequence[int]) -> Iterator[LostRecord]:
    columns = ("topic", "partition", "producer", "sequence", "offset", "resolved_at", "window")
    before = 0
    for batch in tables.batches("anomalies", (*columns, "found")):
        here = [row - before for row in rows if before <= row < before + batch.num_rows]
        before += batch.num_rows
        for row in batch.take(pa.array(here, type=pa.int64())).to_pylist():
            yield LostRecord(**row)
