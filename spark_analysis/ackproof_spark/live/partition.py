"""The state of a partition in the live job, and how a micro-batch changes it. No Spark here.

Sends and reads are matched by producer and sequence, not by offset: after a truncation another
record may have the offset of an acked one. An acked send that was not read yet is unseen. It is a
loss candidate once a higher offset was read, because a partition is read in order of offsets.

If the read position goes back, the log was truncated and written again: sends read from there on
are unseen until they are read again. Only the last `MEMORY_S` seconds of reads can be reverted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ackproof_spark.metrics import UNAVAILABILITY_GAP_S

Int64s = npt.NDArray[np.int64]

#: First and last acknowledgement of each stretch without a pause longer than the gap.
Spans = list[tuple[int, int]]

#: In `offset`: the broker returned none (acks=0, or a resend found to be a duplicate).
NO_OFFSET = -1

#: Bits of a sequence in a send's key; the bits above are the producer's number.
_SEQUENCE_BITS = 44

#: Seconds for which reads are kept: reads of sends without an ack yet, and reads to be reverted.
MEMORY_S = 900

_GAP_US = int(UNAVAILABILITY_GAP_S * 1e6)


class Kind(IntEnum):
    """Kind of an event; the first three are numbered as in `ledger_stream.OUTCOMES`."""

    ACKED = 0
    FAILED = 1
    UNKNOWN = 2
    #: An intact record of this run was read.
    READ = 3
    #: Another record was read: damaged, or not of this run.
    READ_OTHER = 4
    #: The job has started, or the run is over; belongs to no partition.
    MARK = 5


#: Events or sends of one partition, in no particular order, as a structured array.
Rows = npt.NDArray[np.void]

#: Events of one micro-batch. `at` is the time of the event and `sent_at`, for outcomes, that of the
#: send: UTC microseconds. `producer` and `sequence` have no meaning for `READ_OTHER`; `offset` may
#: be `NO_OFFSET`.
EVENTS = np.dtype(
    [(name, np.int64) for name in ("kind", "producer", "sequence", "offset", "at", "sent_at")]
)

#: `window` is the number of the window in which the send was acked or read. `raised` is 1 for sends
#: that were reported as loss candidates.
SENDS = np.dtype(
    [(name, np.int64) for name in ("producer", "sequence", "offset", "window", "raised")]
)
_PLACED = ["producer", "sequence", "offset"]


def rows_of(columns: Sequence[Int64s], kind: np.dtype[np.void]) -> Rows:
    """Return `EVENTS` or `SENDS` from their columns, in order."""
    rows = np.empty(len(columns[0]), kind)
    for name, column in zip(kind.names or (), columns, strict=True):
        rows[name] = column
    return rows


@dataclass(slots=True, kw_only=True)
class _Counts:
    """Counts and positions of a window, or of the partition as a whole."""

    acked: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    acked_at: int = 0
    acked_offset: int = NO_OFFSET
    read_offset: int = NO_OFFSET


@dataclass(slots=True, kw_only=True)
class _Totals(_Counts):
    """Counts of the whole partition, and the position of the windows that were written."""

    #: Times of the first send, the last outcome and the newest event.
    first: int | None = None
    last: int = 0
    newest: int = 0
    least_acked: int = NO_OFFSET
    #: Number of the last window that was written, and the highest acked and read offsets then.
    written: int | None = None
    written_acked: int = NO_OFFSET
    written_read: int = NO_OFFSET
    spans: Spans = field(default_factory=list)


def keys(rows: Rows) -> Int64s:
    """Return one number for each send, of its producer (below 2^19) and sequence (below 2^44)."""
    combined: Int64s = (rows["producer"] << _SEQUENCE_BITS) | rows["sequence"]
    return combined


@dataclass(slots=True, kw_only=True)
class Partition:
    """One partition, as of the last micro-batch; windows are `width` microseconds."""

    width: int
    totals: _Totals = field(default_factory=_Totals)
    windows: dict[int, _Counts] = field(default_factory=dict)
    #: Acked, not read yet. Few, unless reads stop or records are lost.
    unseen: Rows = field(default_factory=lambda: np.empty(0, SENDS))
    #: Read, with no outcome in the ledger yet.
    early: Rows = field(default_factory=lambda: np.empty(0, SENDS))

    def take(
        self, events: Rows, matched_from: Callable[[int], Rows]
    ) -> tuple[list[dict[str, Any]], Rows]:
        """Apply events; return rows of `tables.LOSS_CANDIDATES`, and the sends matched by reads.

        The rows are of candidates that changed. `matched_from` takes an offset and returns the
        sends that earlier calls matched and that were last read at this offset or above.
        """
        self._count(events)
        acked = events[events["kind"] == Kind.ACKED]
        read = events[events["kind"] == Kind.READ]
        offsets = events["offset"][events["kind"] >= Kind.READ]
        if len(offsets) and offsets.min() <= self.totals.read_offset:
            self._revert_reads(int(offsets.min()), matched_from)
        self.unseen = np.concatenate([self.unseen, self._sends(acked)])
        changes, matched = self._match(read)
        self._settle(events)
        if len(offsets):
            self.totals.read_offset = int(offsets.max())
            self._window(int(events["at"][events["kind"] >= Kind.READ].max())).read_offset = int(
                offsets.max()
            )
        changes += self._raise_candidates()
        oldest = (self.totals.newest - int(MEMORY_S * 1e6)) // self.width
        self.early = self.early[self.early["window"] >= oldest]
        return changes, matched

    def close(self, watermark: int) -> list[dict[str, Any]]:
        """Return rows of `tables.LIVE_WINDOWS` for the windows that the watermark has passed.

        Windows without an event, as in an outage, are included once a window with events follows.
        """
        over = [number for number in self.windows if (number + 1) * self.width <= watermark]
        if not over:
            return []
        totals = self.totals
        first = min(over) if totals.written is None else totals.written + 1
        rows = []
        for number in range(first, max(over) + 1):
            window = self.windows.pop(number, None) or _Counts()
            if window.acked_offset != NO_OFFSET:
                totals.written_acked = window.acked_offset
            if window.read_offset != NO_OFFSET:
                totals.written_read = window.read_offset
            rows.append(self._row(number, window))
        totals.written = max(over)
        totals.spans = since(totals.spans, (totals.written + 1) * self.width)
        return rows

    def row(self) -> dict[str, Any]:
        """Return the row of `tables.LIVE_PARTITIONS`."""
        totals = self.totals
        return {
            "at": totals.newest,
            "acked": totals.acked,
            "failed": totals.failed,
            "unknown": totals.unknown,
            "read": totals.read,
            "acked_offset": _known(totals.acked_offset),
            "read_offset": _known(totals.read_offset),
            "lag": _lag(totals.acked_offset, totals.read_offset, totals.least_acked),
            "unseen": len(self.unseen),
            "candidates": int(self.unseen["raised"].sum()),
        }

    def numbers(self) -> dict[str, Any]:
        """Return the state without `unseen` and `early`, for JSON."""
        windows = {number: asdict(window) for number, window in self.windows.items()}
        return {"totals": asdict(self.totals), "windows": windows}

    @classmethod
    def of(cls, numbers: Mapping[str, Any], *, width: int, unseen: Rows, early: Rows) -> Partition:
        """Return the partition from its `numbers` and sends."""
        totals = _Totals(**numbers["totals"])
        totals.spans = [(first, last) for first, last in totals.spans]
        return cls(
            width=width,
            totals=totals,
            windows={int(number): _Counts(**each) for number, each in numbers["windows"].items()},
            unseen=unseen,
            early=early,
        )

    def _sends(self, events: Rows) -> Rows:
        sends = np.zeros(len(events), SENDS)
        sends[_PLACED] = events[_PLACED]
        sends["window"] = events["at"] // self.width
        return sends

    def _window(self, at: int) -> _Counts:
        """Return the window of an event; the next open one if that window was written."""
        written = self.totals.written
        number = at // self.width if written is None else max(at // self.width, written + 1)
        return self.windows.setdefault(number, _Counts())

    def _count(self, events: Rows) -> None:
        totals = self.totals
        kind = np.minimum(events["kind"], Kind.READ)
        for number in np.unique(events["at"] // self.width).tolist():
            here = events["at"] // self.width == number
            counts = np.bincount(kind[here], minlength=4).tolist()
            for whole in (totals, self._window(number * self.width)):
                whole.acked += counts[0]
                whole.failed += counts[1]
                whole.unknown += counts[2]
                whole.read += counts[3]
            acked = events[here & (events["kind"] == Kind.ACKED) & (events["offset"] != NO_OFFSET)]
            if len(acked):
                least = int(acked["offset"].min())
                known = totals.least_acked != NO_OFFSET
                totals.least_acked = min(least, totals.least_acked) if known else least
                latest = int(acked["at"].max())
                offset = int(acked["offset"][acked["at"] == latest].max())
                for whole in (totals, self._window(latest)):
                    if latest >= whole.acked_at:
                        whole.acked_at, whole.acked_offset = latest, offset
        outcomes = events[events["kind"] < Kind.READ]
        if len(outcomes):
            sent = int(outcomes["sent_at"].min())
            totals.first = sent if totals.first is None else min(totals.first, sent)
            totals.last = max(totals.last, int(outcomes["at"].max()))
            acked_at = outcomes["at"][outcomes["kind"] == Kind.ACKED]
            totals.spans = with_acks(totals.spans, acked_at, gap=_GAP_US)
        if len(events):
            totals.newest = max(totals.newest, int(events["at"].max()))

    def _revert_reads(self, offset: int, matched_from: Callable[[int], Rows]) -> None:
        """Make sends that were read at `offset` and above unseen: the log was truncated there."""
        read = matched_from(offset)
        read = read[~np.isin(keys(read), keys(self.unseen))]
        self.unseen = np.concatenate([self.unseen, read])
        self.early = self.early[self.early["offset"] < offset]

    def _match(self, read: Rows) -> tuple[list[dict[str, Any]], Rows]:
        """Match acked sends with reads; return the rows of candidates that are withdrawn, too."""
        reads = np.concatenate([self.early, self._sends(read)])
        matched = np.isin(keys(self.unseen), keys(reads))
        seen = self.unseen[matched]
        self.early = reads[~np.isin(keys(reads), keys(seen))]
        self.unseen = self.unseen[~matched]
        withdrawn = self._changes(seen[seen["raised"] == 1], "withdrawn")
        # The lowest offset at which each was read.
        order = np.lexsort((reads["offset"], keys(reads)))
        seen["offset"] = reads["offset"][order][np.searchsorted(keys(reads)[order], keys(seen))]
        seen["raised"] = 0
        return withdrawn, seen

    def _settle(self, events: Rows) -> None:
        """Drop reads of sends that failed or are unknown, and so are never acked."""
        other = events[(events["kind"] == Kind.FAILED) | (events["kind"] == Kind.UNKNOWN)]
        self.early = self.early[~np.isin(keys(self.early), keys(other))]

    def _raise_candidates(self) -> list[dict[str, Any]]:
        unseen = self.unseen
        overtaken = (unseen["offset"] != NO_OFFSET) & (unseen["offset"] < self.totals.read_offset)
        new = overtaken & (unseen["raised"] == 0)
        unseen["raised"][new] = 1
        return self._changes(unseen[new], "raised")

    def _changes(self, sends: Rows, change: str) -> list[dict[str, Any]]:
        return [
            {
                "at": self.totals.newest,
                "change": change,
                "producer": producer,
                "sequence": sequence,
                "offset": offset,
                "overtaken_by": self.totals.read_offset,
            }
            for producer, sequence, offset in sends[_PLACED].tolist()
        ]

    def _row(self, number: int, window: _Counts) -> dict[str, Any]:
        totals = self.totals
        start, end = number * self.width, (number + 1) * self.width
        here = self.unseen["window"] == number
        first = max(start, totals.first) if totals.first is not None else end
        return {
            "start": start,
            "end": end,
            "acked": window.acked,
            "failed": window.failed,
            "unknown": window.unknown,
            "read": window.read,
            "acked_per_s": window.acked / (self.width / 1e6),
            "availability": availability(totals.spans, first, min(end, totals.last)),
            "lag": _lag(totals.written_acked, totals.written_read, totals.least_acked),
            "unseen": int(here.sum()),
            "candidates": int(self.unseen["raised"][here].sum()),
        }


def _known(offset: int) -> int | None:
    return None if offset == NO_OFFSET else offset


def _lag(acked: int, read: int, least: int) -> int | None:
    """Return the lag as `warehouse.timelines.lag` defines it, of a partition; all are offsets."""
    return None if acked == NO_OFFSET else max(0, acked - max(read, least - 1))


def with_acks(spans: Spans, at: npt.NDArray[np.int64], *, gap: int) -> Spans:
    """Return `spans` with acknowledgements at `at` added, which may come in any order.

    All times are microseconds. `gap` is the longest pause that is not an outage.
    """
    if not len(at):
        return spans
    times = np.unique(at)
    breaks = np.flatnonzero(np.diff(times) > gap)
    first = times[np.append(0, breaks + 1)].tolist()
    last = times[np.append(breaks, len(times) - 1)].tolist()
    merged: Spans = []
    for start, stop in sorted([*spans, *zip(first, last, strict=True)]):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def availability(spans: Spans, start: int, stop: int) -> float:
    """Return the share of the time from `start` to `stop` that lies within spans.

    A live job does not know which sends are in flight. It assumes that the workload goes on from a
    partition's first send to its last outcome, so an idle producer counts as an outage here.
    """
    if stop <= start:
        return 1.0
    covered = sum(max(0, min(stop, last) - max(start, first)) for first, last in spans)
    return covered / (stop - start)


def since(spans: Spans, start: int) -> Spans:
    """Return the spans that matter from `start` on: those that end later, and the one before.

    A late ack may join the one before with later spans.
    """
    before = sum(last < start for _, last in spans)
    return spans[max(0, before - 1) :]
