"""One partition of a run, and how a micro-batch changes it. No Spark here.

What was acked and read is compared as in a watch (`watch.partition`). An id is a producer and a
sequence, which the run gave once, so a send is matched wherever it is read: after a truncation
another record may have the acked offset. An acked send that was not read yet is unseen, and a loss
candidate once a higher offset was read, because a partition is read in order of offsets.

If the read position goes back, the log was truncated: acked sends from there on are taken from the
ledger again, and are unseen until they are read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ackproof_spark.watch import partition as watch
from ackproof_spark.watch.partition import Finding, Int64s, Look

#: In `offset`: the broker returned none (acks=0, or a resend found to be a duplicate).
NO_OFFSET = watch.NONE

#: Bits of a sequence in a send's id; the bits above are the producer's number.
_SEQUENCE_BITS = 44

#: The id of a record that is not of this run, or damaged.
_OTHER = -1


class Kind(IntEnum):
    """Kind of an event; the first three are numbered as in `ledger_stream.OUTCOMES`."""

    ACKED = 0
    FAILED = 1
    UNKNOWN = 2
    #: An intact record of this run was read.
    READ = 3
    #: Another record was read: damaged, or not of this run.
    READ_OTHER = 4
    #: The job has started, and the run is over; they belong to no partition.
    STARTED = 5
    ENDED = 6


#: Events of one partition, in no particular order, as a structured array.
Rows = npt.NDArray[np.void]

#: Events of one micro-batch. `at` is the time of the event: UTC microseconds. `producer` and
#: `sequence` have no meaning for `READ_OTHER`; `offset` may be `NO_OFFSET`.
EVENTS = np.dtype([(name, np.int64) for name in ("kind", "producer", "sequence", "offset", "at")])


def keys(rows: Rows) -> Int64s:
    """Return one number for each send, of its producer (below 2^19) and sequence (below 2^44)."""
    combined: Int64s = (rows["producer"] << _SEQUENCE_BITS) | rows["sequence"]
    return combined


@dataclass(slots=True, kw_only=True)
class Partition:
    """One partition, as of the last micro-batch."""

    #: By the name of a kind; of both kinds of reads together.
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    #: Of the latest ack with an offset; and the lowest acked offset.
    acked_at: int = 0
    acked_offset: int = NO_OFFSET
    least_acked: int = NO_OFFSET
    #: Time of the newest event.
    newest: int = 0
    matching: watch.Partition = field(default_factory=watch.Partition)

    def take(
        self, events: Rows, acked_from: Callable[[int], Rows], *, now: int, over: bool = False
    ) -> list[dict[str, Any]]:
        """Apply events; return rows of `tables.LIVE_FINDINGS`.

        `acked_from` takes an offset and returns the `ACKED` events of the ledger so far that have
        this offset or a higher one. `now` is the time of the run. Once it is `over`, every send is
        decided at once.
        """
        self._count(events)
        acks = _sends(events[events["kind"] == Kind.ACKED])
        reads = _sends(events[events["kind"] >= Kind.READ])
        reads["id"][events["kind"][events["kind"] >= Kind.READ] == Kind.READ_OTHER] = _OTHER
        reset = NO_OFFSET
        if len(reads) and reads["offset"].min() < self.matching.read_to:
            reset = int(reads["offset"].min())
            acks = np.concatenate([acks, _sends(acked_from(reset))])
        findings = self.matching.take(
            Look(at=now, begin=0, start=0, reset=reset),
            acks,
            acks["id"].tolist(),
            reads,
            patience=0 if over else int(watch.PATIENCE_S * 1e6),
            exact=True,
        )
        # What failed or is unknown is never acked.
        settled = events[(events["kind"] == Kind.FAILED) | (events["kind"] == Kind.UNKNOWN)]
        never = np.append(keys(settled), _OTHER)
        self.matching.early = self.matching.early[~np.isin(self.matching.early["id"], never)]
        return [_row(each) for each in findings]

    def _count(self, events: Rows) -> None:
        counts = np.bincount(np.minimum(events["kind"], Kind.READ), minlength=4).tolist()
        self.acked += counts[Kind.ACKED]
        self.failed += counts[Kind.FAILED]
        self.unknown += counts[Kind.UNKNOWN]
        self.read += counts[Kind.READ]
        self.newest = int(events["at"].max(initial=self.newest))
        acked = events[(events["kind"] == Kind.ACKED) & (events["offset"] != NO_OFFSET)]
        if len(acked):
            least = int(acked["offset"].min())
            known = self.least_acked != NO_OFFSET
            self.least_acked = min(least, self.least_acked) if known else least
            if (latest := int(acked["at"].max())) >= self.acked_at:
                self.acked_at = latest
                self.acked_offset = int(acked["offset"][acked["at"] == latest].max())

    def row(self) -> dict[str, Any]:
        """Return the row of `tables.LIVE_PARTITIONS`."""
        read_offset = self.matching.read_to - 1
        lost, undecided = (
            self.matching.counts.get(each, 0) for each in (Finding.LOST, Finding.UNDECIDED)
        )
        return {
            "at": self.newest,
            "acked": self.acked,
            "failed": self.failed,
            "unknown": self.unknown,
            "read": self.read,
            "acked_offset": _known(self.acked_offset),
            "read_offset": _known(read_offset),
            "lag": _lag(self.acked_offset, read_offset, self.least_acked),
            "unseen": len(self.matching.unseen) + lost + undecided,
            "candidates": self.matching.overtaken() + lost,
        }

    def packed(self) -> tuple[str, bytes]:
        """Return the state as text and bytes, for `unpacked`."""
        text, data = self.matching.packed()
        return json.dumps([{name: getattr(self, name) for name in _NUMBERS}, text]), data

    @classmethod
    def unpacked(cls, text: str, data: bytes) -> Partition:
        numbers, matching = json.loads(text)
        return cls(**numbers, matching=watch.Partition.unpacked(matching, data))


_NUMBERS = (
    *("acked", "failed", "unknown", "read"),
    *("acked_at", "acked_offset", "least_acked", "newest"),
)


def _sends(events: Rows) -> Rows:
    """Return events as rows of a watch, which knows no sequences here.

    The sequences of a producer are spread over its partitions, so they do not ascend by one.
    """
    nothing = np.zeros(len(events), np.int64)
    columns: Mapping[str, Int64s] = {
        "offset": events["offset"],
        "id": keys(events),
        "parts": nothing + 1,
        "sequence": nothing + watch.NONE,
    }
    return watch.rows_of([columns.get(name, nothing) for name in watch.COLUMNS])


def _row(finding: Mapping[str, Any]) -> dict[str, Any]:
    known = finding["send"] != ""
    return {
        "at": finding["found_at"],
        "finding": finding["finding"],
        "producer": finding["send"] >> _SEQUENCE_BITS if known else None,
        "sequence": finding["send"] & ((1 << _SEQUENCE_BITS) - 1) if known else None,
        "offset": _known(finding["record_offset"]),
        "records": finding["records"],
        "other_offset": _known(finding["other_offset"]),
    }


def _known(offset: int) -> int | None:
    return None if offset == NO_OFFSET else offset


def _lag(acked: int, read: int, least: int) -> int | None:
    """Return the lag as `warehouse.timelines.lag` defines it, of a partition; all are offsets."""
    return None if acked == NO_OFFSET else max(0, acked - max(read, least - 1))
