"""The lost records of a run: number, positions, groups of equal losses, and their histories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ackproof.judgement.evidence import (
    ABSENT,
    Evidence,
    Numbers,
    int64,
    moment_of,
    number_of,
)
from ackproof.runs.overview import (
    MAX_GROUPS,
    MAX_HISTORIES,
    MAX_LANES,
    History,
    Losses,
    LossGroup,
    LossLane,
    LostRecord,
    Mark,
)
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import ANOMALIES, IDENTITIES, LOCATION, LOST_STORIES

#: Of a lane.
_MAX_MARKS = 50
#: Number of positions that are distinguishable across the width of a plot.
_DISTINCT = 500

_POSITION = ("topic", "partition", "producer", "sequence", "offset", "window")
_TIMES = ("sent_at", "resolved_at")

#: Columns in which the records of one history differ.
_OF_RECORD = ("producer", "sequence", "offset", "sent_at")
_LISTS = ("isr", "held_by")
_LEFT_OUT = ("schema_version", "run_id", "cause", "window", "acked_at", *_OF_RECORD)
_EXTENT = ("offset", "acked_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNumbers:
    """Columns with one entry for each lost record.

    `partition` is an index of `partitions`, `row` the row in the table. `times` are the times of
    the outcomes, or of the sends if the outcome has no time.
    """

    partitions: list[tuple[str, int]]
    partition: Numbers
    producer: Numbers
    sequence: Numbers
    offset: Numbers
    window: Numbers
    times: Numbers
    row: Numbers


def read_lost(evidence: Evidence) -> LostNumbers | None:
    """Return the lost records, or None if the run was not analysed."""
    if not evidence.has("anomalies"):
        evidence.note(f"{LOCATION['anomalies']}: missing: the run was not analysed.")
        return None
    columns = (*_POSITION, *_TIMES)
    schema = pa.schema([*(ANOMALIES.field(name) for name in columns), ("row", pa.int64())])
    parts, rows = [], 0
    for batch in evidence.batches("anomalies", ("anomaly", *columns)):
        numbered = pa.Table.from_batches([batch]).append_column(
            "row", pa.array(range(rows, rows + batch.num_rows), pa.int64())
        )
        lost = numbered.filter(pc.equal(numbered["anomaly"], Anomaly.LOST.value))
        parts.append(lost.select(schema.names).cast(schema))
        rows += batch.num_rows
    lost = pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    encoded = lost["topic"].combine_chunks().dictionary_encode()
    distinct, partition = np.unique(
        np.stack([np.asarray(encoded.indices, dtype=np.int64), int64(lost["partition"])]),
        axis=1,
        return_inverse=True,
    )
    topics = encoded.dictionary.to_pylist()
    resolved = int64(lost["resolved_at"])
    return LostNumbers(
        partitions=[(topics[topic], number) for topic, number in distinct.T.tolist()],
        partition=partition.reshape(-1),
        producer=int64(lost["producer"]),
        sequence=int64(lost["sequence"]),
        offset=int64(lost["offset"]),
        window=int64(lost["window"]),
        times=np.where(resolved != ABSENT, resolved, int64(lost["sent_at"])),
        row=int64(lost["row"]),
    )


def losses_of(evidence: Evidence, lost: LostNumbers, *, last_sequence: Mapping[int, int]) -> Losses:
    """Aggregate the lost records; `last_sequence` is the last sequence of each producer."""
    log_ends: dict[tuple[str, int], int] = {}
    if not evidence.note_absence("partition_ends"):
        for row in evidence.readable("partition_ends", ("topic", "partition", "end_offset")):
            log_ends[row["topic"], row["partition"]] = row["end_offset"]
    lanes = _loss_lanes(lost, log_ends, last_sequence)
    lanes.sort(key=lambda lane: (-lane.count, lane.topic, lane.partition, lane.producer or 0))
    shown, hidden = lanes[:MAX_LANES], lanes[MAX_LANES:]
    shown.sort(key=lambda lane: (lane.topic, lane.partition, lane.producer or 0))
    return Losses(
        count=int(lost.row.size),
        lanes=shown,
        hidden_lanes=len(hidden),
        hidden_count=sum(lane.count for lane in hidden),
        groups=_groups(evidence, lost),
    )


def _loss_lanes(
    lost: LostNumbers, log_ends: Mapping[tuple[str, int], int], last_sequence: Mapping[int, int]
) -> list[LossLane]:
    lanes = []

    def add(chosen: NDArray[np.bool_], positions: Numbers, end: int, **fields: Any) -> None:
        if chosen.any():
            marks = merge(np.sort(positions[chosen]))
            end, count = max(marks[-1].last + 1, end), int(np.count_nonzero(chosen))
            lanes.append(LossLane(count=count, marks=marks, end=end, **fields))

    for index, (topic, partition) in enumerate(lost.partitions):
        here, known = lost.partition == index, lost.offset != ABSENT
        log_end = log_ends.get((topic, partition))
        lane: dict[str, Any] = {"topic": topic, "partition": partition, "producer": None}
        add(here & known, lost.offset, log_end or 0, by="offset", log_end=log_end, **lane)
        for producer in np.unique(lost.producer[here & ~known]).tolist():
            chosen = here & ~known & (lost.producer == producer)
            lane["producer"] = None if producer == ABSENT else producer
            end = last_sequence.get(producer, 0) + 1
            add(chosen, lost.sequence, end, by="sequence", log_end=None, **lane)
    return lanes


def merge(positions: Numbers) -> list[Mark]:
    """Return at most `_MAX_MARKS` marks for sorted positions.

    Adjacent positions share a mark. If there are too many marks, they bridge invisible gaps, then
    all but the widest gaps. The count of such a mark is smaller than its width.
    """
    gaps = np.diff(positions)
    splits = np.flatnonzero(gaps > 1)
    if splits.size >= _MAX_MARKS:
        splits = np.flatnonzero(gaps > positions[-1] // _DISTINCT)
    if splits.size >= _MAX_MARKS:
        widest = np.argsort(gaps[splits], kind="stable")[-(_MAX_MARKS - 1) :]
        splits = np.sort(splits[widest])
    firsts = np.concatenate(([0], splits + 1))
    lasts = np.concatenate((splits, [positions.size - 1]))
    return [
        Mark(first=int(positions[a]), last=int(positions[b]), count=int(b - a + 1))
        for a, b in zip(firsts, lasts, strict=True)
    ]


def _groups(evidence: Evidence, lost: LostNumbers) -> list[LossGroup]:
    """Return the `MAX_GROUPS` groups with the most records, in order of time."""
    if not lost.row.size:
        return []
    order = np.lexsort((lost.times, lost.window, lost.partition))
    group = np.stack((lost.partition[order], lost.window[order]))
    starts = np.flatnonzero(np.any(np.diff(group, axis=1), axis=0)) + 1
    largest = sorted(np.split(order, starts), key=lambda members: -members.size)[:MAX_GROUPS]
    firsts = _lost_records(evidence, sorted(int(lost.row[members[0]]) for members in largest))
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
    return groups


def _lost_records(evidence: Evidence, rows: Sequence[int]) -> dict[int, LostRecord]:
    records = {}
    before = 0
    for batch in evidence.batches("anomalies", (*_POSITION, "resolved_at", "found")):
        here = [row for row in rows if before <= row < before + batch.num_rows]
        taken = batch.take(pa.array([row - before for row in here], type=pa.int64()))
        for row, record in zip(here, taken.to_pylist(), strict=True):
            records[row] = LostRecord(**record)
        before += batch.num_rows
    named = identities(evidence, [(one.producer, one.sequence) for one in records.values()])
    return {
        row: one.model_copy(update={"identity": named.get((one.producer, one.sequence), "")})
        for row, one in records.items()
    }


def identities(
    evidence: Evidence,
    sends: Iterable[tuple[int | None, int | None]],
    column: Literal["text", "identity"] = "text",
) -> dict[tuple[int | None, int | None], str]:
    """Return a column of `tables.IDENTITIES` for sends of an application.

    They are given and returned by producer and sequence. By default it is what the application
    knows them by.
    """
    by_producer: defaultdict[int | None, list[int | None]] = defaultdict(list)
    for producer, sequence in sends:
        by_producer[producer].append(sequence)
    named: dict[tuple[int | None, int | None], str] = {}
    for file in evidence.files("identities"):
        producer = number_of(file)
        if producer not in by_producer:
            continue
        chosen = [("sequence", "in", by_producer[producer])]
        with suppress(pa.ArrowException, OSError):  # a damaged file hides no loss
            table = pq.read_table(file, schema=IDENTITIES, filters=chosen)
            for row in table.select(["sequence", column]).to_pylist():
                named[producer, row["sequence"]] = row[column] or ""
    return named


def histories(evidence: Evidence) -> list[History]:
    """Return the histories with most lost records; empty if the table is missing or damaged."""
    names = [name for name in LOST_STORIES.names if name not in ("schema_version", "run_id")]
    batches = list(replace(evidence, missing=[]).batches("lost_stories", names))
    if not batches:
        return []
    stories = pa.Table.from_batches(batches)
    for name in _LISTS:  # lists cannot be the key of a group
        text = pc.binary_join(stories[name].cast(pa.list_(pa.string())), ",")
        stories = stories.set_column(stories.schema.get_field_index(name), name, text)
    grouped = (
        stories.sort_by("acked_at")
        .group_by([name for name in names if name not in _LEFT_OUT], use_threads=False)
        .aggregate(
            [([], "count_all")]
            + [(name, "first") for name in _OF_RECORD]
            + [(name, how) for name in _EXTENT for how in ("min", "max")]
        )
        .sort_by([("count_all", "descending")])
        .slice(0, MAX_HISTORIES)
    )
    found = [_history(row) for row in grouped.to_pylist()]
    named = identities(evidence, [(one.producer, one.sequence) for one in found])
    return [
        one.model_copy(update={"identity": named.get((one.producer, one.sequence), "")})
        for one in found
    ]


def _history(row: Mapping[str, Any]) -> History:
    renamed = {
        "count": row["count_all"],
        **{name: row[f"{name}_first"] for name in _OF_RECORD},
        **{f"first_{name}": row[f"{name}_min"] for name in _EXTENT},
        **{f"last_{name}": row[f"{name}_max"] for name in _EXTENT},
        **{
            name: None
            if row[name] is None
            else [int(node) for node in row[name].split(",") if node]
            for name in _LISTS
        },
    }
    return History(**{name: row[name] for name in History.model_fields if name in row} | renamed)
