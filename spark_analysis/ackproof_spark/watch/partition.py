"""One partition of a watch, and how a micro-batch changes it. No Spark here.

A micro-batch brings acked sends, records, and a look at the cluster. A send is matched with the
record at its acked offset if that has the send's identity, and else with another record of that
identity that was read a short time ago. Of matched sends only the ranges of offsets are kept::

    acked 0-99, read 0-99              matched: 0-99
    a look: an epoch begins at 60      matched: 0-59, and 60-99 are read again, in both logs

Time is the time of the looks. A send that is not matched `patience` after it was first seen is
`lost` if a higher offset was read, and else `late` until it is decided. Records without an ack are
remembered twice as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ackproof_spark.watch.ranges import NO_END, Int64s, Ranges

#: Raised when the state is stored in another form: a checkpoint of another version is refused.
VERSION = 1

#: Seconds after which an acked send that was not read is lost, late or undecided, unless another
#: number was asked for.
PATIENCE_S = 60.0

#: The last matched sends of a partition among whose identities a further copy is recognized.
WINDOW = 10_000
#: Stretches of records of one producer that a truncation can take back one by one.
_RUNS = 1000

NONE = -1


class Kind(IntEnum):
    """What a row of a micro-batch is."""

    ACK = 0
    RECORD = 1
    LOOK = 2


class Finding(StrEnum):
    """What a watch finds. `FOUND`: a late send was read after all."""

    LOST = "lost"
    LATE = "late"
    FOUND = "found"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    UNDECIDED = "undecided"
    REMOVED = "removed"
    TRUNCATED = "truncated"
    RECREATED = "recreated"


#: `id`, `digest` and `key` are hashes of the parts of an identity, `parts` are the bits of those
#: that a send has. `sequence` is `NONE` without one. `again`: 1 if it was read before.
COLUMNS = (
    *("offset", "again", "id", "digest", "key", "parts"),
    *("producer", "sequence"),
)
_ROW = np.dtype([(name, np.int64) for name in (*COLUMNS, "seen", "mark", "tardy")])
_SENT = np.dtype([(name, np.int64) for name in ("offset", "identity", "parts")])

Rows = npt.NDArray[np.void]

#: Odd numbers that keep the parts of an identity apart.
_MIX = tuple(np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The cluster's answer about a partition: offsets, and the time in UTC microseconds.

    `reset` is where records were replaced, else `NONE`; offsets from `hole` up to `hole_end` are
    not read again yet. Offsets below `start` are not compared. `recreated`: the topic is new.
    """

    at: int
    begin: int
    start: int
    reset: int = NONE
    hole: int = 0
    hole_end: int = 0
    recreated: bool = False


def rows_of(columns: Sequence[Any]) -> Rows:
    """Return rows from their `COLUMNS`."""
    rows = np.zeros(len(columns[0]), _ROW)
    for name, column in zip(COLUMNS, columns, strict=True):
        rows[name] = column
    return rows


def identities(rows: Rows, parts: Int64s | int) -> Int64s:
    """Return one number for the identity that each row has by these parts."""
    with np.errstate(over="ignore"):
        mixed = np.zeros(len(rows), np.uint64)
        for bit, name in enumerate(("id", "digest", "key")):
            if not np.bitwise_and(parts, 1 << bit).any():
                continue
            part = (
                rows[name].view(np.uint64) ^ (rows[name].view(np.uint64) >> np.uint64(29))
            ) * _MIX[bit]
            mixed ^= np.where(np.bitwise_and(parts, 1 << bit) > 0, part, np.uint64(0))
    return mixed.view(np.int64)


def _names(offsets: Int64s, identity: Int64s) -> Int64s:
    """Return one number for each send, of its offset and identity."""
    with np.errstate(over="ignore"):
        return offsets * np.int64(0x27D4EB2F165667C5) ^ identity


def _by_offset(rows: Rows) -> Rows:
    """Return rows in the order of offsets; of one offset those read before come last.

    Sorting structured rows by a field is slow, and most rows are in order already.
    """
    offsets = rows["offset"].copy()  # next to each other in memory
    if (np.diff(offsets) > 0).all():
        return rows
    return rows[np.lexsort((rows["again"], offsets))]


def _repeated(numbers: Int64s) -> npt.NDArray[np.bool_]:
    """Return which numbers occur more than once."""
    repeated = np.zeros(len(numbers), np.bool_)
    if (np.diff(numbers) > 0).all():
        return repeated
    order = np.argsort(numbers, kind="stable")
    same = np.diff(numbers[order]) == 0
    repeated[order[1:][same]] = repeated[order[:-1][same]] = True
    return repeated


@dataclass(slots=True, kw_only=True)
class _Producer:
    """The sequences of a producer that were read in a partition."""

    highest: int = NONE
    seen: Ranges = field(default_factory=Ranges)


@dataclass(slots=True, kw_only=True)
class Partition:
    """The state of a partition; `row` is what a report shows."""

    at: int = 0
    start: int = 0
    begin: int = 0
    #: One more than the highest offset that was read, and the offsets below it that were not.
    read_to: int = 0
    hole: tuple[int, int] = (0, 0)
    #: Offsets that may have been given out twice: those from the last new epoch on.
    twice: tuple[int, int] = (0, 0)
    #: Below it, records that no ack named were forgotten.
    forgotten_to: int = 0
    matched: Ranges = field(default_factory=Ranges)
    producers: dict[int, _Producer] = field(default_factory=dict)
    #: Offset, length, producer and first sequence of stretches of records.
    runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    acked: int = 0
    #: Acks that named an offset whose send was matched already.
    repeated: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    #: Sends not matched yet, and what their owner knows each by. `mark` is 1 if reported as late.
    unseen: Rows = field(default_factory=lambda: np.zeros(0, _ROW))
    texts: Any = field(default_factory=lambda: np.zeros(0, object))
    #: Records that no ack names yet. `mark` is the offset of a send with the same identity.
    early: Rows = field(default_factory=lambda: np.zeros(0, _ROW))
    #: The last matched sends without a sequence, or at offsets given out again.
    recent: Rows = field(default_factory=lambda: np.zeros(0, _SENT))
    #: Sends that were reported, for acks that are read again.
    reported: Rows = field(default_factory=lambda: np.zeros(0, _SENT))

    def take(
        self,
        look: Look | None,
        acks: Rows,
        texts: Sequence[str | int],
        records: Rows,
        *,
        patience: int,
        exact: bool = False,
    ) -> list[dict[str, Any]]:
        """Apply a micro-batch; return its findings. `patience` is in microseconds.

        `exact`: no two sends have one identity, so a send is matched at any offset, at once.
        """
        findings: list[dict[str, Any]] = []
        if look is not None:
            findings += self._look(look)
        offsets = records["offset"]
        # Where a look has records read again, others may have been fetched before.
        stale = (records["again"] == 0) & (offsets >= self.twice[0]) & (offsets < self.hole[1])
        records = records[(offsets >= self.start) & ~stale]
        findings += self._order(records)
        self._read(records)
        self._acks(acks, texts)
        findings += self._match(patience, exact=exact)
        findings += self._decide(patience)
        for each in findings:
            self.counts[each["finding"]] = self.counts.get(each["finding"], 0) + each["records"]
        return findings

    def overtaken(self) -> int:
        """Return how many unseen sends have an offset below one that was read."""
        offsets = self.unseen["offset"]
        return int(((offsets != NONE) & self._passed(offsets)).sum())

    def row(self) -> dict[str, Any]:
        """Return counts of now, for a report."""
        return {
            "at": self.at,
            "acked": self.acked,
            "read_to": self.read_to,
            "unseen": len(self.unseen),
            "late": int(self.unseen["mark"].sum()),
            "repeated": self.repeated,
            "ranges": len(self.matched.begins)
            + sum(len(p.seen.begins) for p in self.producers.values()),
            **{
                each.value: self.counts.get(each, 0) for each in Finding if each is not Finding.LATE
            },
        }

    def _look(self, look: Look) -> Iterator[dict[str, Any]]:
        self.at, self.begin, self.start = look.at, look.begin, look.start
        self.hole = (look.hole, look.hole_end)
        if look.recreated:
            yield self._finding(Finding.RECREATED, look.reset)
            yield from self._rows(Finding.REMOVED, self.unseen["offset"] == self.unseen["offset"])
            self._keep(np.zeros(len(self.unseen), np.bool_))
            self._cut(0)
            self.producers.clear()
        elif look.reset != NONE:
            if (gone := self.read_to - look.reset) > 0:
                yield self._finding(Finding.TRUNCATED, look.reset, records=gone)
            self._cut(look.reset)

    def _cut(self, offset: int) -> None:
        """Take back what was read from `offset` on."""
        self.twice = (offset, max(self.read_to, self.twice[1] - WINDOW, offset) + WINDOW)
        self.matched.remove(offset, NO_END)
        self.read_to = min(self.read_to, offset)
        self.forgotten_to = min(self.forgotten_to, offset)
        self.early = self.early[self.early["offset"] < offset]
        self.recent = self.recent[self.recent["offset"] < offset]
        if self.runs and offset < self.runs[0][0]:
            self.producers.clear()  # which sequences stood below `offset` is not known
        for at, length, who, first in self.runs:
            kept = max(0, min(length, offset - at))
            if kept < length and (producer := self.producers.get(who)):
                producer.seen.remove(first + kept, first + length)
                producer.highest = int(producer.seen.ends.max(initial=0)) - 1
        runs = [(at, min(n, offset - at), who, first) for at, n, who, first in self.runs]
        self.runs = [run for run in runs if run[1] > 0]

    def _order(self, records: Rows) -> list[dict[str, Any]]:
        """Return doubled and reordered records among those with a sequence, in stretches."""
        fresh = _by_offset(records[records["sequence"] != NONE])
        # Of an offset that was read twice, as beside a truncation, only the first read counts.
        fresh = fresh[np.append(True, np.diff(fresh["offset"]) > 0)] if len(fresh) else fresh
        known = self.runs[-1][0] + self.runs[-1][1] if self.runs else 0
        inside = [fresh["offset"] >= known]
        for at, n, _, _ in self.runs if len(fresh) and fresh["offset"][0] < known else ():
            inside.append((fresh["offset"] >= at) & (fresh["offset"] < at + n))
        if len(inside) > 1:  # read again: those below that no stretch has are new, too
            fresh = fresh[inside[0] | ~np.logical_or.reduce(inside[1:])]
        if not len(fresh):
            return []
        step = np.diff(fresh["offset"]) == 1
        same = (np.diff(fresh["producer"]) == 0) & (np.diff(fresh["sequence"]) == 1)
        starts = np.append(0, np.flatnonzero(~(step & same)) + 1)
        findings = []
        for begin, end in zip(
            starts.tolist(), np.append(starts[1:], len(fresh)).tolist(), strict=True
        ):
            run = fresh[begin:end]
            who, first = int(run["producer"][0]), int(run["sequence"][0])
            producer = self.producers.setdefault(who, _Producer())
            if first <= producer.highest:
                twice = producer.seen.has(run["sequence"])
                before = ~twice & (run["sequence"] < producer.highest)
                for kind, chosen in ((Finding.DOUBLED, twice), (Finding.REORDERED, before)):
                    if some := int(chosen.sum()):
                        place = int(np.argmax(chosen))
                        findings.append(
                            self._finding(
                                kind,
                                int(run["offset"][place]),
                                records=some,
                                sequence=int(run["sequence"][place]),
                            )
                        )
            producer.seen.add(run["sequence"])
            producer.highest = max(producer.highest, int(run["sequence"][-1]))
            last = self.runs[-1] if self.runs else (NONE, 0, 0, 0)
            offset = int(run["offset"][0])
            if (last[0] + last[1], last[2], last[3] + last[1]) == (offset, who, first):
                self.runs[-1] = (last[0], last[1] + len(run), who, last[3])
            else:
                self.runs.append((offset, len(run), who, first))
        self.runs = sorted(self.runs)[-_RUNS:]
        return findings

    def _read(self, records: Rows) -> None:
        if not len(records):
            return
        self.read_to = max(self.read_to, int(records["offset"].max()) + 1)
        records = records[~self.matched.has(records["offset"])]
        records["seen"], records["mark"] = self.at, NONE
        pool = np.concatenate([self.early, records])
        offsets = pool["offset"].copy()
        if not (np.diff(offsets) > 0).all():
            order = np.argsort(offsets, kind="stable")
            # The newest record of an offset counts.
            pool = pool[order[np.append(np.diff(offsets[order]) > 0, True)]]
        self.early = pool

    def _acks(self, acks: Rows, texts: Sequence[str | int]) -> None:
        """Add sends that are new: neither matched, nor waiting, nor reported."""
        if not len(acks):
            return
        first_time = acks["again"] == 0
        placed = acks["offset"] != NONE
        new = np.where(placed, acks["offset"] >= self.start, first_time)
        # Of an offset given out again, the ack of the earlier record may come last.
        matched = self.matched.has(acks["offset"]) & ~self._other_there(acks)
        self.repeated += int((matched & new & first_time).sum())
        names = _names(acks["offset"], identities(acks, acks["parts"]))
        waiting = _names(self.unseen["offset"], identities(self.unseen, self.unseen["parts"]))
        reported = _names(self.reported["offset"], self.reported["identity"])
        shared = _repeated(acks["offset"].copy())
        once, places = ~shared, np.flatnonzero(shared)
        once[places[np.unique(names[places], return_index=True)[1]]] = True
        known = np.isin(names, np.concatenate([waiting, reported])) | ~once
        new &= ~matched & ~(placed & known)
        added = acks[new]
        added["seen"], added["mark"] = self.at, 0
        # Its record may have been read and forgotten.
        added["tardy"] = (added["offset"] < self.forgotten_to) & placed[new]
        self.acked += int(first_time[new].sum())
        self.unseen = np.concatenate([self.unseen, added])
        self.texts = np.concatenate([self.texts, np.array([*texts], object)[new]])

    def _other_there(self, acks: Rows) -> npt.NDArray[np.bool_]:
        """Return which acks name the offset of a matched send with another identity."""
        recent = np.sort(self.recent, order="offset")
        if not len(recent):
            return np.zeros(len(acks), np.bool_)
        there = recent[
            np.minimum(np.searchsorted(recent["offset"], acks["offset"]), len(recent) - 1)
        ]
        identity = identities(acks, acks["parts"])
        known = (there["offset"] == acks["offset"]) & (there["parts"] == acks["parts"])
        return np.asarray(known & (there["identity"] != identity))

    def _match(self, patience: int, *, exact: bool) -> Iterator[dict[str, Any]]:
        """Match sends and records; yield late sends that were found."""
        unseen, early = self.unseen, self.early
        identity = identities(unseen, unseen["parts"])
        found = np.full(len(unseen), NONE)
        if len(early) and len(unseen):
            place = np.minimum(np.searchsorted(early["offset"], unseen["offset"]), len(early) - 1)
            same = early["offset"][place] == unseen["offset"]
            for parts in np.unique(unseen["parts"]).tolist():
                same &= (unseen["parts"] != parts) | (identities(early, parts)[place] == identity)
            found[same] = place[same]
        # By then the acks of other sends with the same identity are known.
        due = exact | ((unseen["seen"] <= self.at - patience) & self._passed(unseen["offset"]))
        for parts in np.unique(unseen["parts"][(found == NONE) & due]).tolist():
            asked = np.flatnonzero((found == NONE) & due & (unseen["parts"] == parts))
            asked = asked[np.unique(identity[asked], return_index=True)[1]]
            free = np.ones(len(early), np.bool_)
            free[found[found != NONE]] = False
            left = np.flatnonzero(free)
            names, first = np.unique(identities(early[left], parts), return_index=True)
            _, sends, places = np.intersect1d(
                identity[asked], names, assume_unique=True, return_indices=True
            )
            # It may be the record of any send with this identity.
            twins = np.isin(identity, names[places]) & (found == NONE)
            unseen["tardy"][twins] = 1
            found[asked[sends]] = left[first[places]]
        hit = found != NONE
        sent, records = (
            {name: rows[name][chosen] for name in ("offset", "sequence", "parts")}
            for rows, chosen in ((unseen, hit), (early, found[hit]))
        )
        self.early = np.delete(early, found[hit])
        self.matched.add(
            np.concatenate([sent["offset"][sent["offset"] != NONE], records["offset"]]),
            # The acks of records that wait are still to come, in a gap between those of others.
            keep=int(self.early["offset"].min(initial=NO_END)),
        )
        plain = (records["sequence"] == NONE) | (
            (records["offset"] >= self.twice[0]) & (records["offset"] < self.twice[1])
        )
        added = np.zeros(int(plain.sum()), _SENT)
        added["offset"], added["parts"] = records["offset"][plain], sent["parts"][plain]
        added["identity"] = identity[hit][plain]
        recent = np.concatenate([self.recent, added])[-WINDOW:]
        self.recent = recent[recent["offset"] >= self.read_to - 2 * WINDOW]
        yield from self._rows(Finding.FOUND, hit & (unseen["mark"] == 1))
        self._keep(~hit)
        self._twins()

    def _twins(self) -> None:
        """Mark records without an ack that have the identity of a matched send."""
        early, recent = self.early, self.recent
        for parts in np.unique(recent["parts"]).tolist() if len(early) else ():
            sends = np.sort(recent[recent["parts"] == parts], order="identity")
            names = identities(early, parts)
            place = np.minimum(np.searchsorted(sends["identity"], names), len(sends) - 1)
            twin = (
                (sends["identity"][place] == names)
                & (early["mark"] == NONE)
                & (early["sequence"] == NONE)
            )
            early["mark"][twin] = sends["offset"][place][twin]

    def _passed(self, offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Return whether the log was read beyond each offset; of no offset it was."""
        return (offsets < self.read_to) & ~((offsets >= self.hole[0]) & (offsets < self.hole[1]))

    def _decide(self, patience: int) -> list[dict[str, Any]]:
        old = self.early["seen"] <= self.at - 2 * patience
        twins = self.early[old & (self.early["mark"] != NONE)]
        findings = [
            self._finding(Finding.DOUBLED, int(row["offset"]), other=int(row["mark"]))
            for row in twins
        ]
        if old.any():
            self.forgotten_to = max(self.forgotten_to, int(self.early["offset"][old].max()) + 1)
            self.early = self.early[~old]
        unseen = self.unseen
        due = unseen["seen"] <= self.at - patience
        nowhere = unseen["offset"] == NONE
        removed = ~nowhere & (unseen["offset"] < self.begin)
        passed = due & ~removed & ~nowhere & self._passed(unseen["offset"])
        tardy = unseen["tardy"] == 1
        decided = (
            (Finding.REMOVED, removed),
            (Finding.LOST, passed & ~tardy),
            (Finding.UNDECIDED, (passed & tardy) | (due & nowhere)),
        )
        for kind, chosen in decided:
            findings += self._rows(kind, chosen)
        gone = removed | passed | (due & nowhere)
        late = due & ~gone & (unseen["mark"] == 0)
        findings += self._rows(Finding.LATE, late)
        unseen["mark"][late] = 1
        reported = np.zeros(int(gone.sum()), _SENT)
        reported["offset"] = unseen["offset"][gone]
        reported["identity"] = identities(unseen, unseen["parts"])[gone]
        self.reported = np.concatenate([self.reported, reported])
        # Where retention has removed a record, its ack cannot be read again as one above.
        self.reported = self.reported[self.reported["offset"] >= self.begin]
        self._keep(~gone)
        return findings

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self.unseen, self.texts = self.unseen[kept], self.texts[kept]

    def _rows(self, kind: Finding, chosen: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
        return [
            self._finding(kind, int(self.unseen["offset"][place]), text=self.texts[place])
            for place in np.flatnonzero(chosen).tolist()
        ]

    def _finding(
        self,
        kind: Finding,
        offset: int,
        *,
        records: int = 1,
        sequence: int = NONE,
        other: int = NONE,
        text: str = "",
    ) -> dict[str, Any]:
        return {
            "finding": kind.value,
            "record_offset": offset,
            "records": records,
            "sequence": sequence,
            "other_offset": other,
            "send": text,
            "found_at": self.at,
        }

    def packed(self) -> tuple[str, bytes]:
        """Return the state as text and bytes, for `unpacked`."""
        rows = [self.unseen, self.early, self.recent, self.reported]
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        text = {
            **numbers,
            "hole": self.hole,
            "twice": self.twice,
            "matched": self.matched.pairs(),
            "producers": [(who, p.highest, p.seen.pairs()) for who, p in self.producers.items()],
            "runs": self.runs,
            "counts": self.counts,
            "texts": self.texts.tolist(),
            "rows": [len(some) for some in rows],
        }
        return json.dumps(text, separators=(",", ":")), b"".join(some.tobytes() for some in rows)

    @classmethod
    def unpacked(cls, text: str, data: bytes) -> Partition:
        read = json.loads(text)
        rows, place = [], 0
        for kind, count in zip((_ROW, _ROW, _SENT, _SENT), read["rows"], strict=True):
            rows.append(np.frombuffer(data, kind, count, place).copy())
            place += count * kind.itemsize
        unseen, early, recent, reported = rows
        return cls(
            **{name: read[name] for name in _NUMBERS},
            hole=tuple(read["hole"]),
            twice=tuple(read["twice"]),
            matched=Ranges(read["matched"]),
            producers={
                who: _Producer(highest=highest, seen=Ranges(seen))
                for who, highest, seen in read["producers"]
            },
            runs=[tuple(run) for run in read["runs"]],
            counts=read["counts"],
            texts=np.array(read["texts"], object),
            unseen=unseen,
            early=early,
            recent=recent,
            reported=reported,
        )


_NUMBERS = ("at", "start", "begin", "read_to", "forgotten_to", "acked", "repeated")
