"""A generated run directory of any size with planted anomalies.

Several producers send to one topic as in a real run (the partition of a send is its sequence modulo
the number of partitions), each at its own speed; brokers append their batches in turn. Some sends
are failed or of unknown outcome, as after any fault, and are not anomalies. Every planted anomaly
is known (`Planted`). Memory does not grow with the size.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import LOCATION, Outcome, RecordState
from benchmarks.run_files import OUTCOMES, STATES, LedgerFile, LogFiles, write_small_tables

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PARTITIONS = 3
#: Shares of all sends. Producers differ in speed, so their row groups are not aligned.
SPEEDS = (0.28, 0.26, 0.24, 0.22)
#: The kinds of planted events, `_EACH` of each kind.
KINDS = (
    "lost",
    "retried",
    "copied later",
    "reordered",
    "never sent",
    "foreign",
    "corrupt",
    "misplaced",
)
_EACH = 24
#: Number of offsets at the end of partition 0 that were not read.
_UNREAD = 50
#: One in this many sends has an unknown outcome (half of them written), or failed.
_UNKNOWN, _FAILED = 5_000, 20_000
#: Sends in a step; a run needs three steps to have space for all events.
_STEP = 300_000
FEWEST = 3 * _STEP
#: Records in a batch of a producer.
_BATCH = 64
#: Minimum distance between events, in records.
_APART = 512

Row = tuple[str, int, int | None, int | None, int | None]
"""An anomaly: kind, partition, producer, sequence and offset."""


@dataclass(slots=True, kw_only=True)
class Planted:
    """Number of sends by outcome, number of records, and every anomaly."""

    sends: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    records: int = 0
    anomalies: set[Row] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class _Appended:
    """The records that are appended to one partition in one step, in log order.

    `sent`: the record belongs to a send (else it is a copy or foreign). `kept`: it can be read.
    """

    producer: Int64s
    sequence: Int64s
    sent: Bools
    kept: Bools
    state: npt.NDArray[np.int8]

    def insert(self, rows: list[tuple[int, int, int, RecordState]]) -> None:
        """Insert records without a send; `rows` are position, producer, sequence, state."""
        at = [row[0] for row in rows]
        self.producer = np.insert(self.producer, at, [row[1] for row in rows])
        self.sequence = np.insert(self.sequence, at, [row[2] for row in rows])
        self.state = np.insert(self.state, at, [STATES.index(row[3]) for row in rows])
        self.sent = np.insert(self.sent, at, False)
        self.kept = np.insert(self.kept, at, True)


def plant(run_dir: Path, *, records: int, seed: int) -> Planted:
    """Write the tables of a run of about `records` sends, at least `FEWEST`.

    Raises DiskError if the disk is full.
    """
    (run_dir / LOCATION["ledger"]).mkdir(parents=True)
    (run_dir / LOCATION["final_log"]).mkdir()
    return _Planting(run_dir, records=records, seed=seed).run()


class _Planting:
    def __init__(self, run_dir: Path, *, records: int, seed: int) -> None:
        self._run_dir = run_dir
        self._random = np.random.default_rng(seed)
        self._steps = round(records / _STEP)
        self._sends_a_step = records / self._steps
        self._planted = Planted()
        self._next_offset = [0] * PARTITIONS
        self._ledgers = [LedgerFile(run_dir, producer) for producer in range(len(SPEEDS))]
        self._logs = [LogFiles(run_dir, partition) for partition in range(PARTITIONS)]
        self._events: dict[tuple[int, int], list[str]] = defaultdict(list)
        for kind in KINDS * _EACH:
            at = self._random.integers([self._steps, PARTITIONS])
            self._events[int(at[0]), int(at[1])].append(kind)
        #: Copies that a later step appends: producer and sequence, by step and partition.
        self._copies: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)

    def run(self) -> Planted:
        for step in range(self._steps):
            for partition in range(PARTITIONS):
                self._append(step, partition)
        for ledger in self._ledgers:
            ledger.close()
        for log in self._logs:
            log.close()
        read_to = [self._next_offset[0] - _UNREAD, *self._next_offset[1:]]
        write_small_tables(self._run_dir, ends=self._next_offset, read_to=read_to)
        return self._planted

    def _append(self, step: int, partition: int) -> None:
        lane = self._lane(step, partition)
        events = self._damage(step, partition, lane)
        offset = self._next_offset[partition] + np.arange(len(lane.sequence))
        self._next_offset[partition] += len(offset)
        outcome = self._outcomes(lane, events)
        if step == self._steps - 1 and partition == 0:
            unread = np.arange(len(offset) - _UNREAD, len(offset))
            lane.kept[unread] = False
            outcome[unread] = OUTCOMES.index(Outcome.ACKED)
            for at in unread[lane.sent[unread]]:
                self._note(Anomaly.UNSEEN, partition, lane, int(at), int(offset[at]))
        acked_at = offset.copy()
        for at, anomaly in events:
            acked_at[at] += anomaly is Anomaly.INCONSISTENT
            self._note(anomaly, partition, lane, at, int(acked_at[at]))
        for code, word in enumerate(OUTCOMES):
            self._planted.sends[word] += int((lane.sent & (outcome == code)).sum())
        for producer, ledger in enumerate(self._ledgers):
            rows = np.flatnonzero(lane.sent & (lane.producer == producer))
            ledger.add(partition, lane.sequence[rows], acked_at[rows], outcome[rows])
        rows = np.flatnonzero(lane.kept)
        self._planted.records += len(rows)
        self._logs[partition].add(
            offset[rows], lane.producer[rows], lane.sequence[rows], lane.state[rows]
        )

    def _lane(self, step: int, partition: int) -> _Appended:
        """Return the sends of all producers in a step; their batches alternate."""
        starts, producers, lengths, turns = [], [], [], []
        for producer, speed in enumerate(SPEEDS):
            begin, end = (round((step + i) * self._sends_a_step * speed) for i in range(2))
            mine = range(begin + (partition - begin) % PARTITIONS, end, PARTITIONS)
            batch = np.arange(-(-len(mine) // _BATCH))
            starts.append(mine.start + batch * _BATCH * PARTITIONS)
            lengths.append(np.minimum(_BATCH, len(mine) - batch * _BATCH))
            producers.append(np.full(len(batch), producer))
            turns.append((batch + self._random.random(len(batch))) / len(batch))
        order = np.argsort(np.concatenate(turns))
        length = np.concatenate(lengths)[order]
        rows = int(length.sum())
        within = np.arange(rows) - np.repeat(np.cumsum(length) - length, length)
        return _Appended(
            producer=np.repeat(np.concatenate(producers)[order], length),
            sequence=np.repeat(np.concatenate(starts)[order], length) + within * PARTITIONS,
            sent=np.ones(rows, np.bool_),
            kept=np.ones(rows, np.bool_),
            state=np.zeros(rows, np.int8),
        )

    def _damage(self, step: int, partition: int, lane: _Appended) -> list[tuple[int, Anomaly]]:
        """Apply the events of a step; return positions and kinds of the resulting anomalies."""
        events = self._events[step, partition]
        copies = self._copies.pop((step, partition), [])
        usable = len(lane.sequence) - 2 * _UNREAD
        slots = np.arange(1, usable // _APART - 1) * _APART
        positions = np.sort(self._random.choice(slots, len(events) + len(copies), replace=False))
        inserts: list[tuple[int, int, int, RecordState]] = []
        anomalies: list[tuple[int, Anomaly]] = []
        for position, what in zip(positions.tolist(), [*events, *copies], strict=True):
            # The first of two adjacent records of one producer.
            same = lane.producer[position : position + _APART // 2]
            at = position + int(np.argmax(same[:-1] == same[1:]))
            here = int(lane.producer[at]), int(lane.sequence[at])
            row = at + len(inserts)
            match what:
                case "lost":
                    lane.kept[at] = False
                    anomalies.append((row, Anomaly.LOST))
                case "retried":  # the first attempt was written; the second was acked
                    inserts.append((at, *here, RecordState.INTACT))
                    anomalies.append((row + 1, Anomaly.DUPLICATED))
                case "copied later":
                    later = min(step + 1 + int(self._random.integers(9)), self._steps - 1)
                    if later > step:
                        self._copies[later, partition].append(here)
                case "reordered":
                    lane.sequence[[at, at + 1]] = lane.sequence[[at + 1, at]]
                    anomalies.append((row + 1, Anomaly.REORDERED))
                case "never sent":
                    inserts.append(
                        (
                            at,
                            here[0],
                            10**12 + int(self._next_offset[partition]) + at,
                            RecordState.INTACT,
                        )
                    )
                    anomalies.append((row, Anomaly.PHANTOM))
                case "foreign":
                    inserts.append((at, -1, -1, RecordState.FOREIGN))
                    anomalies.append((row, Anomaly.PHANTOM))
                case "corrupt":
                    lane.state[at] = STATES.index(RecordState.CORRUPT)
                    anomalies.append((row, Anomaly.CORRUPT))
                case "misplaced":  # acked at the offset of the next record
                    anomalies.append((row, Anomaly.INCONSISTENT))
                case (int(), int()) as copied:
                    inserts.append((at, *copied, RecordState.INTACT))
                    anomalies.append((row, Anomaly.DUPLICATED))
        lane.insert(inserts)
        return anomalies

    def _outcomes(self, lane: _Appended, events: list[tuple[int, Anomaly]]) -> npt.NDArray[np.int8]:
        """Draw an outcome for each record; those near an event are acked."""
        rows = len(lane.sequence)
        outcome = np.zeros(rows, np.int8)
        free = lane.sent.copy()
        for at, _ in events:
            free[max(0, at - 3) : at + 4] = False
        for kind, one_in, written in (
            (Outcome.UNKNOWN, _UNKNOWN, 0.5),
            (Outcome.FAILED, _FAILED, 0),
        ):
            some = np.unique(self._random.integers(0, rows, rows // one_in))
            some = some[free[some]]
            outcome[some] = OUTCOMES.index(kind)
            lane.kept[some] = self._random.random(len(some)) < written
            free[some] = False
        return outcome

    def _note(
        self, anomaly: Anomaly, partition: int, lane: _Appended, at: int, offset: int
    ) -> None:
        foreign = STATES[lane.state[at]] is RecordState.FOREIGN
        name = (None, None) if foreign else (int(lane.producer[at]), int(lane.sequence[at]))
        self._planted.anomalies.add((anomaly, partition, *name, offset))
