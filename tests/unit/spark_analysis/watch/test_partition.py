"""One partition of a watch, by hand and in random histories with an oracle."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ackproof_spark.watch.partition import (
    NONE,
    Finding,
    Look,
    Partition,
    Rows,
    rows_of,
)
from ackproof_spark.watch.ranges import MOST, Ranges

S = 1_000_000
PATIENCE = 10 * S
ID, KEY = 1, 4


@dataclass(frozen=True)
class Record:
    name: int
    producer: int = 0
    sequence: int = NONE
    again: int = 0


@dataclass(frozen=True)
class Ack:
    offset: int
    name: int
    again: int = 0


def rows(items: list[tuple[int, Record | Ack]], *, parts: int = 0) -> Rows:
    columns: dict[str, list[int]] = {}
    for offset, item in items:
        values = {
            "offset": offset,
            "again": item.again,
            "id": item.name,
            "digest": 0,
            "key": item.name,
            "parts": parts,
            "producer": item.producer if isinstance(item, Record) else 0,
            "sequence": item.sequence if isinstance(item, Record) else NONE,
        }
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    if not items:
        return rows_of([np.zeros(0, np.int64)] * 8)
    return rows_of([np.array(column, np.int64) for column in columns.values()])


@dataclass
class Watched:
    """A partition that is driven batch by batch; its state is stored and read back between them."""

    parts: int = ID
    state: Partition = field(default_factory=Partition)
    now: int = 1_000 * S
    found: list[dict[str, Any]] = field(default_factory=list)

    def batch(
        self,
        acks: list[Ack] | None = None,
        records: list[tuple[int, Record]] | None = None,
        *,
        pass_s: float = 1,
        **look: Any,
    ) -> list[dict[str, Any]]:
        self.now += int(pass_s * S)
        sent = rows([(ack.offset, ack) for ack in acks or ()], parts=self.parts)
        texts = [f"key {ack.name}" for ack in acks or ()]
        found = self.state.take(
            Look(at=self.now, **({"begin": 0, "start": 0} | look)),
            sent,
            texts,
            rows([*records] if records else []),
            patience=PATIENCE,
        )
        self.state = Partition.unpacked(*self.state.packed())
        self.found += found
        return found

    def kinds(self) -> list[tuple[str, int]]:
        return [(each["finding"], each["record_offset"]) for each in self.found]


def whole(first: int, end: int) -> tuple[list[Ack], list[tuple[int, Record]]]:
    return (
        [Ack(n, 1000 + n) for n in range(first, end)],
        [(n, Record(1000 + n, producer=7, sequence=n)) for n in range(first, end)],
    )


def test_a_healthy_partition_costs_a_few_bytes() -> None:
    watched = Watched()
    for first in range(0, 5000, 100):
        acks, records = whole(first, first + 100)
        watched.batch(acks if first % 200 else acks[::-1], records)
    assert watched.found == []
    text, data = watched.state.packed()
    assert (len(data), watched.state.row()["ranges"]) == (0, 2)
    assert len(text) < 400


def test_the_first_send_of_a_producer_whose_hash_is_0_is_a_stretch_of_its_own() -> None:
    watched = Watched()
    assert watched.batch([Ack(0, 5)], [(0, Record(5, producer=0, sequence=0))]) == []
    assert watched.state.runs == [(0, 1, 0, 0)]


def test_a_record_elsewhere_is_that_of_one_of_the_sends_with_its_identity() -> None:
    watched = Watched()
    watched.batch([Ack(0, 5), Ack(1, 5)], [(2, Record(5)), (3, Record(6))])
    assert watched.batch(pass_s=11) == watched.found
    assert watched.kinds() == [("undecided", 1)]


def test_of_two_copies_elsewhere_the_second_is_the_doubled_one() -> None:
    watched = Watched()
    watched.batch([Ack(0, 5)], [(2, Record(5)), (3, Record(5))])
    assert watched.batch(pass_s=11) == []
    watched.batch(pass_s=11)
    assert watched.kinds() == [("doubled", 3)]


def test_what_is_not_read_is_late_and_then_lost_or_found() -> None:
    watched = Watched()
    watched.batch([Ack(0, 5), Ack(1, 6)], [])
    assert watched.batch(pass_s=11) == watched.found
    assert watched.kinds() == [("late", 0), ("late", 1)]
    watched.batch(records=[(0, Record(5)), (2, Record(9))])
    assert watched.kinds()[2:] == [("found", 0), ("lost", 1)]
    assert watched.found[-1]["send"] == "key 6"
    watched.batch([Ack(1, 6)], pass_s=30)
    assert len(watched.found) == 4, "a line that was logged again is no second loss"


def test_another_record_at_the_offset_is_a_loss_and_the_same_elsewhere_is_not() -> None:
    watched = Watched()
    watched.batch([Ack(0, 5), Ack(1, 6)], [(0, Record(99)), (1, Record(98)), (2, Record(6))])
    watched.batch(pass_s=11)
    assert watched.kinds() == [("lost", 0)]


def test_after_a_truncation_both_logs_are_read_again() -> None:
    watched = Watched()
    acks, records = whole(0, 100)
    watched.batch(acks, records)
    others = [(n, Record(5000 + n, again=1)) for n in range(60, 80)]
    again = [Ack(ack.offset, ack.name, again=1) for ack in acks[40:]]
    watched.batch(again, others, reset=60, hole=80, hole_end=100)
    watched.batch(pass_s=11, hole=80, hole_end=100)
    assert watched.kinds()[0] == ("truncated", 60)
    lost = [offset for kind, offset in watched.kinds() if kind == "lost"]
    assert lost == [*range(60, 80)], "the hole is not read yet"
    late = [offset for kind, offset in watched.kinds() if kind == "late"]
    assert late == [*range(80, 100)]
    watched.batch(records=[(105, Record(7000))], hole=80, hole_end=100)
    assert len(watched.found) == 1 + 20 + 20, "the reader is beyond the hole, which may have them"
    watched.batch(records=[(n, Record(6000 + n, again=1)) for n in range(80, 101)])
    lost = [offset for kind, offset in watched.kinds() if kind == "lost"]
    assert lost == [*range(60, 100)]


def test_a_record_that_was_fetched_before_it_was_replaced_is_not_read() -> None:
    """Spark's source keeps what it has fetched beyond a micro-batch for the next one."""
    watched = Watched()
    acks, records = whole(0, 100)
    watched.batch(acks[:80], records[:80])
    fetched, others = records[80:], [(n, Record(5000 + n, again=1)) for n in range(60, 100)]
    new = [Ack(n, 5000 + n) for n in range(80, 100)]
    again = [Ack(ack.offset, ack.name, again=1) for ack in acks[60:80]]
    look = {"hole": 100, "hole_end": 200}
    watched.batch(again + acks[80:] + new, [*others, *fetched], reset=60, **look)
    watched.batch(pass_s=11, **look)
    lost = {each["send"] for each in watched.found if each["finding"] == "lost"}
    assert lost == {f"key {1000 + n}" for n in range(60, 100)}


@pytest.mark.parametrize("copy", [3, 150])
def test_a_copy_with_a_sequence_is_doubled_however_old_it_is(copy: int) -> None:
    watched = Watched()
    acks, records = whole(0, 200)
    watched.batch(acks[:190], records[:190])
    watched.batch(acks[190:], [*records[190:], (200, records[copy][1])])
    assert watched.kinds() == [("doubled", 200)]
    assert watched.found[0]["sequence"] == copy


def test_what_a_truncation_took_may_be_sent_again_and_is_not_doubled() -> None:
    watched = Watched()
    acks, records = whole(0, 100)
    watched.batch(acks, records)
    again = [Ack(ack.offset, ack.name, again=1) for ack in acks[60:]]
    sent_again = [(n, records[n + 5][1]) for n in range(60, 90)]
    watched.batch(again, sent_again, reset=60)
    assert watched.kinds() == [("truncated", 60)]
    watched.batch(records=[(90, records[70][1])])
    assert watched.kinds()[1:] == [("doubled", 90)]


def test_an_offset_given_out_again_is_decided_although_records_there_were_forgotten() -> None:
    watched = Watched()
    watched.batch(records=[(n, Record(n)) for n in range(50)])
    watched.batch(pass_s=21)
    watched.batch([Ack(40, 5)], [(n, Record(100 + n)) for n in range(30, 50)], reset=30)
    watched.batch(pass_s=11)
    assert watched.kinds() == [("truncated", 30), ("lost", 40)]


def test_out_of_order_is_found_by_sequences() -> None:
    watched = Watched()
    order = [0, 1, 4, 2, 3, 5]
    watched.batch(
        [Ack(place, n) for place, n in enumerate(order)],
        [(place, Record(n, producer=7, sequence=n)) for place, n in enumerate(order)],
    )
    assert watched.kinds() == [("reordered", 3)]
    assert watched.found[0]["records"] == 2


def test_without_a_sequence_a_copy_is_doubled_within_the_window_if_no_send_names_it() -> None:
    watched = Watched(parts=KEY)
    watched.batch([Ack(0, 5), Ack(1, 5)], [(n, Record(5)) for n in range(3)])
    assert watched.batch(pass_s=11) == []
    watched.batch(pass_s=11)
    assert watched.kinds() == [("doubled", 2)]


def test_an_ack_that_is_logged_too_late_is_undecided() -> None:
    watched = Watched()
    watched.batch([], [(0, Record(5)), (1, Record(6))])
    watched.batch(pass_s=21)
    watched.batch([Ack(0, 5)])
    watched.batch(pass_s=11)
    assert watched.kinds() == [("undecided", 0)]


def test_retention_removes_and_a_new_topic_begins_again() -> None:
    watched = Watched()
    watched.batch([Ack(3, 5), Ack(9, 6)])
    watched.batch(begin=5)
    assert watched.kinds() == [("removed", 3)]
    watched.batch(reset=0, recreated=True)
    assert watched.kinds()[1:] == [("recreated", 0), ("removed", 9)]
    watched.batch([Ack(0, 7)], [(0, Record(7))])
    assert watched.batch(pass_s=30) == []


def test_an_ack_without_an_offset_is_looked_for_by_its_identity() -> None:
    watched = Watched()
    watched.batch([Ack(NONE, 5), Ack(NONE, 6)], [(0, Record(5))])
    watched.batch(pass_s=11)
    assert watched.kinds() == [("undecided", NONE)]


def test_ranges_of_any_numbers() -> None:
    drawn = random.Random(3)
    for _ in range(200):
        ranges, oracle = Ranges(), set[int]()
        for _ in range(6):
            numbers = [drawn.randrange(60) for _ in range(drawn.randrange(12))]
            ranges.add(np.array(numbers, np.int64))
            oracle |= {*numbers}
            begin = drawn.randrange(60)
            end = begin + drawn.randrange(8)
            ranges.remove(begin, end)
            oracle -= {*range(begin, end)}
            every = np.arange(-1, 62)
            assert every[ranges.has(every)].tolist() == sorted(oracle)
            pairs = ranges.pairs()
            assert all(a[1] < b[0] for a, b in pairwise(pairs))


def test_of_too_many_ranges_the_lowest_gaps_are_closed() -> None:
    ranges = Ranges()
    ranges.add(np.arange(0, 2 * (MOST + 2), 2))
    assert len(ranges.begins) == MOST
    assert ranges.pairs()[0] == (0, 5)


@pytest.mark.parametrize(("keep", "first"), [(0, 1), (1, 1), (2, 3), (3, 3), (4, 5), (99, 5)])
def test_gaps_that_reach_above_a_number_stay(keep: int, first: int) -> None:
    ranges = Ranges()
    ranges.add(np.arange(0, 2 * (MOST + 2), 2), keep=keep)
    assert ranges.pairs()[0] == (0, first)


class Simulation:
    """A log that loses, repeats and swaps records, and what a watch is given of it.

    The looks are those of `looks.py`: a truncation is seen one batch late, and the reader goes on
    at its own position meanwhile.
    """

    def __init__(self, seed: int, *, sequences: bool) -> None:
        self.draw = random.Random(seed)
        self.sequences = sequences
        self.watched = Watched(parts=ID if sequences else KEY)
        self.log: list[Record] = []
        self.acked: list[Ack] = []
        #: What was planted, by the oracle; places of copies may be truncated away.
        self.copies: set[int] = set()
        self.swapped: set[int] = set()
        self.planted: set[int] = set()
        self.given = self.position = self.top = 0
        self.marks: list[tuple[int, int]] = [(0, 0)]
        self.hole = (0, 0)
        self.cut_at: int | None = None
        #: Records that the reader has fetched, and that were replaced before it gives them.
        self.fetched: dict[int, Record] = {}
        self.next = 0
        self.lags: list[Ack] = []

    def record(self) -> Record:
        self.next += 1
        return (
            Record(10_000 + self.next, 7, self.next)
            if self.sequences
            else Record(10_000 + self.next)
        )

    def write(self, record: Record) -> None:
        self.log.append(record)
        self.lags.append(Ack(len(self.log) - 1, record.name))

    def to_copy(self) -> Record | None:
        """Return a record near the end of the log that was sent and has no copy yet."""
        names = [record.name for record in self.log]
        near = [r for r in self.log[-6:] if r.name < 10**6 and names.count(r.name) == 1]
        return self.draw.choice(near) if near else None

    def produce(self, *, faults: bool) -> None:
        for _ in range(self.draw.randrange(1, 8)):
            what = self.draw.random() if faults else 1
            if what < 0.03:  # acked, and never in the log
                self.lags.append(Ack(len(self.log), self.record().name))
                self.log.append(Record(self.draw.randrange(10**6, 10**9)))
            elif what < 0.06 and (real := self.to_copy()) is not None:
                self.copies.add(len(self.log))
                self.planted.add(len(self.log))
                self.log.append(real)
            elif what < 0.09 and self.sequences:
                first, second = self.record(), self.record()
                self.write(second)
                self.swapped.add(len(self.log))
                self.write(first)
            else:
                self.write(self.record())
        if faults and self.cut_at is None and self.draw.random() < 0.05 and self.top > 8:
            self.cut_at = max(0, self.top - self.draw.randrange(1, 8))
            if self.draw.random() < 0.5:
                self.fetched |= dict(enumerate(self.log[self.position :], self.position))
            del self.log[self.cut_at :]
            self.copies = {place for place in self.copies if place < self.cut_at}
            self.swapped = {place for place in self.swapped if place < self.cut_at}

    def again(self, first: int, end: int) -> list[tuple[int, Record]]:
        return [(n, replace(self.log[n], again=1)) for n in range(first, end)]

    def batch(self, pass_s: float) -> None:
        # An ack may be logged after its record was read.
        ready = [ack for ack in self.lags if self.draw.random() < 0.7 or pass_s > 1]
        self.lags = [ack for ack in self.lags if ack not in ready]
        fresh, self.acked = ready, self.acked + ready
        end = len(self.log)
        records = [(n, self.fetched.pop(n, self.log[n])) for n in range(self.position, end)]
        self.position = max(self.position, end)
        look: dict[str, Any] = {}
        again: list[Ack] = []
        if (cut := self.cut_at) is not None:
            self.cut_at = None
            first = min(cut, self.hole[0]) if self.hole[0] < self.hole[1] else cut
            hole_end = max(self.top, end, self.hole[1]) + 20
            upto = min(end, hole_end)
            records += self.again(first, upto)
            self.hole = (upto, hole_end)
            since = max(acked for ends, acked in self.marks if ends <= cut)
            again = [Ack(ack.offset, ack.name, again=1) for ack in self.acked[since:]]
            look["reset"] = cut
            self.marks = [mark for mark in self.marks if mark[0] <= cut]
            self.top = end
        elif self.hole[0] < self.hole[1]:
            upto = min(end, self.hole[1])
            records += self.again(self.hole[0], upto)
            self.hole = (max(self.hole[0], upto), self.hole[1])
        self.top = max(self.top, end)
        self.marks.append((self.top, len(self.acked)))
        look |= {"hole": self.hole[0], "hole_end": self.hole[1]}
        self.watched.batch(fresh + again, records, pass_s=pass_s, **look)


@pytest.mark.parametrize("sequences", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_random_histories_against_the_oracle(seed: int, *, sequences: bool) -> None:
    simulation = Simulation(seed, sequences=sequences)
    for _ in range(40):
        simulation.produce(faults=True)
        simulation.batch(1)
    for _ in range(20):
        simulation.produce(faults=False)
        simulation.batch(1)
    for _ in range(4):
        simulation.batch(11)
    found = simulation.watched.found
    reported = [
        (each["record_offset"], each["send"]) for each in found if each["finding"] == "lost"
    ]
    there = {record.name for record in simulation.log}
    truly = {(ack.offset, f"key {ack.name}") for ack in simulation.acked if ack.name not in there}
    assert sorted(reported) == sorted(truly)
    assert not [each for each in found if each["finding"] == Finding.UNDECIDED]
    doubled = {each["record_offset"] for each in found if each["finding"] == "doubled"}
    assert simulation.copies <= doubled <= simulation.planted
    reordered = {each["record_offset"] for each in found if each["finding"] == "reordered"}
    assert simulation.swapped <= reordered
