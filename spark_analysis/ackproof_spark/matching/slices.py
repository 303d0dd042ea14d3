"""Cuts ledger and final log into slices of offsets, one for each Spark task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ackproof_spark.matching.row_groups import (
    Layout,
    RecordGroup,
    SendGroup,
    Sizing,
    TakeGeneralPath,
)

#: A log with more offsets for each row is too sparse for the pass,
_OFFSETS_A_ROW = 100

#: unless it has at most this many offsets.
_FEW_OFFSETS = 100_000_000

#: Bytes that one offset of one partition takes in a task's buffer (`LogWindow`).
_BYTES_AN_OFFSET = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The part of a topic that one task compares: offsets from `begin` to `end` (exclusive).

    None is unbounded. `sends` are the row groups with such offsets, sorted by the lowest. Each row
    group is `owned` by one slice, which counts its outcomes and returns its sends without an
    offset. `log_ends` is the end of each partition's records.
    """

    number: int
    topic: str
    begin: int | None
    end: int | None
    sends: tuple[SendGroup, ...]
    owned: frozenset[tuple[str, int]]
    records: tuple[RecordGroup, ...]
    log_ends: dict[int, int]


def slices(layout: Layout, *, sizing: Sizing, cores: int) -> list[Slice]:
    """Cut every topic into slices of offsets; at least one for each core if there is enough.

    Raises `TakeGeneralPath` if too few sends have an offset, a log is sparse, or a slice would need
    too much memory.
    """
    sends = sum(group.rows for group in layout.sends)
    without = sum(group.without_offset for group in layout.sends)
    if sends and (sends - without) / sends < sizing.placed:
        raise TakeGeneralPath(f"{without} of {sends} sends have no offset")
    of_topic: dict[str, list[SendGroup]] = defaultdict(list)
    logs: dict[str, list[RecordGroup]] = defaultdict(list)
    for record_group in layout.records:
        logs[record_group.topic].append(record_group)
    for group in layout.sends:
        if group.topics[0] != group.topics[1]:
            raise TakeGeneralPath(f"a row group of {group.path} holds more than one topic")
        of_topic[group.topics[0]].append(group)
    cut: list[Slice] = []
    for topic in sorted({*of_topic, *logs}):
        rows = sum(group.rows for group in of_topic[topic]) + sum(g.rows for g in logs[topic])
        first = min((group.first for group in logs[topic]), default=0)
        last = max((group.last for group in logs[topic]), default=0)
        if last - first > max(_OFFSETS_A_ROW * rows, _FEW_OFFSETS):
            raise TakeGeneralPath(f"{topic} has {rows} rows at offsets {first} to {last}")
        count = max(1, -(-rows // sizing.rows_a_slice))
        if rows >= cores * sizing.from_rows:
            count = -(-count // cores) * cores
        cuts = _cuts(of_topic[topic], logs[topic], count)
        cut += _slices_of(topic, of_topic[topic], logs[topic], cuts, number=len(cut))
    for piece in cut:
        _check_memory(piece, sizing)
    return cut


def _slices_of(
    topic: str,
    sends: Sequence[SendGroup],
    records: Sequence[RecordGroup],
    cuts: Sequence[int],
    *,
    number: int,
) -> Iterator[Slice]:
    ends: dict[int, int] = {}
    for group in records:
        ends[group.partition] = max(ends.get(group.partition, 0), group.last + 1)
    adrift = [group for group in sends if group.first is None]
    for index, (begin, end) in enumerate(pairwise([None, *cuts, None])):
        here = sorted(
            (
                group
                for group in sends
                if group.first is not None
                and group.last is not None
                and (begin is None or group.last >= begin)
                and (end is None or group.first < end)
            ),
            key=lambda group: (group.first, group.path, group.number),
        )
        without = adrift[index :: len(cuts) + 1]
        owned = [g for g in here if begin is None or (g.first is not None and g.first >= begin)]
        yield Slice(
            number=number + index,
            topic=topic,
            begin=begin,
            end=end,
            sends=(*without, *here),
            owned=frozenset((group.path, group.number) for group in (*without, *owned)),
            records=tuple(
                group
                for group in records
                if (begin is None or group.last >= begin) and (end is None or group.first < end)
            ),
            log_ends=ends,
        )


def _cuts(sends: Sequence[SendGroup], records: Sequence[RecordGroup], count: int) -> list[int]:
    """Return `count - 1` offsets between slices at which few row groups are cut in two."""
    if count == 1 or not records:
        return []
    first, last = min(g.first for g in records), max(g.last for g in records)
    borders = sorted(
        {g.first for g in sends if g.first is not None and first < g.first <= last}
        | {g.first for g in records if g.first > first}
    )
    step = (last + 1 - first) / count
    cuts = set()
    for index in range(1, count):
        even = round(first + index * step)
        near = [x for x in borders if abs(x - even) <= step / 4]
        cuts.add(min(near, key=lambda x: _cut_rows(sends, records, x), default=even))
    return sorted(cut for cut in cuts if first < cut <= last)


def _cut_rows(sends: Sequence[SendGroup], records: Sequence[RecordGroup], offset: int) -> int:
    """Return the number of rows that are read twice if slices are cut at an offset."""
    placed = [(g.first, g.last, g.rows) for g in sends if g.first is not None]
    placed += [(g.first, g.last, g.rows) for g in records]
    return sum(rows for first, last, rows in placed if first < offset <= (last or 0))


def _check_memory(piece: Slice, sizing: Sizing) -> None:
    """Raise `TakeGeneralPath` if the window of the log would need too much memory."""
    end = max(piece.log_ends.values(), default=0)
    placed = [g for g in piece.sends if g.first is not None and g.last is not None]
    high = 0
    for group in placed:
        assert group.first is not None
        assert group.last is not None
        low = max(group.first, piece.begin or 0)
        high = max(high, min(group.last + 1, end if piece.end is None else min(piece.end, end)))
        needed = (high - low) * len(piece.log_ends) * _BYTES_AN_OFFSET
        if needed > sizing.buffer_bytes:
            raise TakeGeneralPath(
                f"offsets {low} to {high} of {piece.topic} must be held at once: {needed} bytes"
            )
