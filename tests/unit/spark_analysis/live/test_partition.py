"""The state of one partition: unseen sends, candidates, reads that are reverted, what is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ackproof_spark.live.partition import EVENTS, NO_OFFSET, Kind, Partition, Rows, keys
from ackproof_spark.watch.partition import PATIENCE_S
from ackproof_spark.watch.ranges import MOST

SECOND = 1_000_000

Event = tuple[Kind, int, int, float]


def events(*each: Event) -> Rows:
    """Make events of (kind, sequence, offset, seconds), all of producer 0."""
    rows = np.zeros(len(each), EVENTS)
    for row, (kind, sequence, offset, at) in zip(rows, each, strict=True):
        row["kind"], row["sequence"], row["offset"], row["at"] = kind, sequence, offset, at * SECOND
    return rows


def acked(*offsets: int, at: float = 1, first: int = 0) -> list[Event]:
    return [(Kind.ACKED, first + offset, offset, at) for offset in offsets]


def read(*offsets: int, at: float = 1, first: int = 0) -> list[Event]:
    return [(Kind.READ, first + offset, offset, at) for offset in offsets]


class Followed:
    """A partition whose state is stored and loaded again after each micro-batch."""

    def __init__(self, *batches: list[Event]) -> None:
        self.partition = Partition()
        self.ledger: list[Event] = []
        self.now = 0.0
        for batch in batches:
            self.take(*batch)

    def take(self, *each: Event, at: float = 0, over: bool = False) -> list[tuple[str, Any]]:
        """Apply a micro-batch; return what was found, with the sequence or else the offset."""
        self.ledger += [event for event in each if event[0] == Kind.ACKED]
        self.now = max([self.now, at, *(event[3] for event in each)])
        rows = self.partition.take(
            events(*each), self.acked_from, now=int(self.now * SECOND), over=over
        )
        self.partition = Partition.unpacked(*self.partition.packed())
        return [
            (row["finding"], row["offset"] if row["sequence"] is None else row["sequence"])
            for row in rows
        ]

    def acked_from(self, offset: int) -> Rows:
        return events(*(event for event in self.ledger if event[2] >= offset))

    def end(self) -> list[tuple[str, Any]]:
        return self.take(over=True)

    @property
    def counts(self) -> tuple[int, int]:
        row = self.partition.row()
        return row["unseen"], row["candidates"]

    @property
    def unseen(self) -> list[int]:
        return sorted(self.partition.matching.unseen["id"].tolist())  # of producer 0


def test_a_read_of_a_higher_offset_makes_an_unseen_send_a_candidate_and_then_lost() -> None:
    followed = Followed(acked(0, 1, 2, 3), read(0, 1, 3))
    row = followed.partition.row()
    assert (row["acked"], row["read"], row["unseen"], row["candidates"]) == (4, 3, 1, 1)
    assert followed.take(at=PATIENCE_S) == []
    assert followed.take(at=PATIENCE_S + 2) == [("lost", 2)]
    assert followed.counts == (1, 1)
    assert followed.end() == []


def test_what_comes_with_the_end_of_a_run_and_after_it_is_decided_at_once() -> None:
    followed = Followed(acked(0, 1) + read(0, 1))
    assert followed.take(*acked(2, 3, 4), *read(3), over=True) == [("lost", 2), ("late", 4)]
    assert followed.take(*read(4), over=True) == [("found", 4)]


def test_an_unseen_send_without_a_higher_read_is_no_candidate() -> None:
    followed = Followed(acked(0, 1, 2, 3), read(0, 1))
    assert followed.counts == (2, 0)
    assert followed.partition.row()["lag"] == 2
    assert followed.end() == [("late", 2), ("late", 3)]
    assert followed.counts == (2, 0)


def test_the_lag_of_a_log_that_was_there_before_the_run_begins_at_its_first_ack() -> None:
    followed = Followed(acked(1001, 1002), acked(1005, 1000, at=2), acked(1009, at=3))
    assert followed.partition.row()["lag"] == 10
    followed.take(*read(1000, 1001))
    assert followed.partition.row()["lag"] == 8


@pytest.mark.parametrize(
    "batches",
    [
        [acked(0, 1, 2) + read(0, 1, 2)],
        [read(0, 1, 2), acked(0, 1, 2)],
        [read(2, 1, 0) + acked(1), acked(2, 0)],
    ],
)
def test_order_within_and_between_micro_batches_does_not_matter(batches: list[Any]) -> None:
    followed = Followed(*batches)
    assert followed.counts == (0, 0)
    assert len(followed.partition.matching.early) == 0
    assert followed.end() == []


def test_another_record_at_the_acked_offset_is_no_match() -> None:
    # Offset 2 was acked for sequence 2; what is read there is sequence 102.
    followed = Followed(acked(0, 1, 2), read(0, 1), read(2, 3, first=100))
    assert followed.counts == (1, 1)
    assert followed.end() == [("lost", 2)]


def test_a_candidate_that_is_read_elsewhere_is_none_any_more() -> None:
    followed = Followed(acked(0, 1, 2), read(0, 2))
    assert followed.counts == (1, 1)
    followed.take((Kind.READ, 1, 7, 2))
    assert followed.counts == (0, 0)
    assert followed.end() == []


def test_sends_are_unseen_again_when_the_read_position_goes_back() -> None:
    followed = Followed(acked(0, 1, 2, 3, 4) + read(0, 1, 2, 3, 4))
    assert followed.counts == (0, 0)
    assert followed.take(*read(2, first=100)) == [("truncated", 2)]
    assert followed.counts == (3, 1), "another record is at offset 2"
    followed.take(*read(3, 4, 5, first=100))
    assert followed.unseen == [2, 3, 4]
    assert followed.end() == [("lost", 2), ("lost", 3), ("lost", 4)]


def test_reads_that_go_back_and_return_the_same_records_lose_nothing() -> None:
    followed = Followed(acked(0, 1, 2) + read(0, 1, 2), read(1, 2))
    assert followed.counts == (0, 0)
    assert followed.end() == []


def test_both_acks_of_an_offset_are_compared() -> None:
    # Offset 1 was given to sequence 1, and after a truncation to sequence 7. Its ack comes before
    # the job learns of the truncation.
    followed = Followed(acked(0, 1) + read(0, 1), [(Kind.ACKED, 7, 1, 2)])
    followed.take((Kind.READ, 7, 1, 3), (Kind.READ, 8, 2, 3))
    assert followed.unseen == [1]
    assert followed.end() == [("lost", 1)]


def test_a_send_without_an_offset_is_matched_at_once_and_never_a_candidate() -> None:
    nowhere = [(Kind.ACKED, number, NO_OFFSET, 1.0) for number in range(3)]
    followed = Followed(nowhere, [(Kind.READ, 1, 5, 1), (Kind.READ, 9, 6, 1)])
    assert followed.unseen == [0, 2]
    assert followed.counts == (2, 0)
    assert followed.end() == [("undecided", 0), ("undecided", 2)]
    assert followed.counts == (2, 0)


def test_a_damaged_record_is_read_and_its_send_is_not_seen() -> None:
    followed = Followed(acked(0, 1, 2) + read(0, 2) + [(Kind.READ_OTHER, 0, 1, 1)])
    assert followed.counts == (1, 1)
    assert followed.partition.row()["read"] == 3
    assert len(followed.partition.matching.early) == 0


def test_a_record_of_another_kind_has_a_higher_offset_too() -> None:
    followed = Followed(acked(0, 1) + read(0) + [(Kind.READ_OTHER, 0, 2, 1)])
    assert followed.counts == (1, 1)


def test_failed_and_unknown_sends_are_never_unseen_and_their_reads_are_dropped() -> None:
    followed = Followed(
        [(Kind.READ, 0, 0, 1), (Kind.READ, 1, 1, 1)],
        [(Kind.UNKNOWN, 0, NO_OFFSET, 2), (Kind.FAILED, 1, NO_OFFSET, 2)],
        read(5, at=3),
    )
    row = followed.partition.row()
    assert (row["failed"], row["unknown"], row["unseen"]) == (1, 1, 0)
    assert followed.partition.matching.early["id"].tolist() == [5]


def test_a_further_copy_of_a_record_is_found() -> None:
    followed = Followed(acked(0, 1) + read(0, 1), [(Kind.READ, 0, 2, 1)])
    assert followed.counts == (0, 0)
    assert followed.end() == [("doubled", 2)]


def test_acks_of_a_second_producer_may_come_in_more_gaps_than_ranges_are_kept() -> None:
    count, lost = 4 * MOST, 101
    reads = [offset for offset in range(count) if offset != lost]
    followed = Followed(acked(*range(0, count, 2)) + read(*reads), acked(*range(1, count, 2)))
    assert followed.unseen == [lost]
    assert len(followed.partition.matching.early) == 0
    assert followed.end() == [("lost", lost)]


def test_state_does_not_grow_with_the_run() -> None:
    followed = Followed()
    sizes = []
    for second in range(0, 6000, 60):
        offsets = range(second * 10, second * 10 + 590)
        # Read, never acked: a send whose outcome is never recorded.
        unknown = (Kind.READ, 1_000_000 + second, second * 10 + 599, second)
        followed.take(*acked(*offsets, at=second), *read(*offsets, at=second), unknown)
        text, data = followed.partition.packed()
        sizes.append(len(text) + len(data))
    assert followed.counts == (0, 0)
    assert max(sizes[50:]) < 1.1 * max(sizes[:50])


def test_a_truncation_reverts_only_the_reads_from_its_offset_on() -> None:
    batches = [acked(*offsets) + read(*offsets) for offsets in (range(5), range(5, 10))]
    followed = Followed(*batches, read(7, first=100, at=2))
    assert followed.unseen == [7, 8, 9]
    followed.take(*read(7, first=200, at=3))
    assert followed.unseen == [7, 8, 9], "truncated again"


def test_a_send_stays_seen_while_the_first_of_its_copies_is_left() -> None:
    followed = Followed(acked(0, 1) + read(0, 1) + [(Kind.READ, 0, 2, 1)])
    followed.take(*read(2, first=100, at=2))
    assert followed.counts == (0, 0)


def test_keys_tell_sends_of_different_producers_apart() -> None:
    producer, sequence = np.meshgrid([0, 1, 7, 2**19 - 1], [0, 1, 2**44 - 1])
    sends = np.zeros(producer.size, EVENTS)
    sends["producer"], sends["sequence"] = producer.ravel(), sequence.ravel()
    assert len(np.unique(keys(sends))) == producer.size
