"""The state of one partition: unseen sends, candidates, reads that are reverted, windows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ackproof_spark.live.partition import (
    EVENTS,
    MEMORY_S,
    NO_OFFSET,
    SENDS,
    Kind,
    Partition,
    Rows,
    keys,
    rows_of,
)
from ackproof_spark.live.store import State, StateFiles

SECOND = 1_000_000
WIDTH = 5 * SECOND
KEY = ("orders", 0)

Event = tuple[Kind, int, int, float]


def events(*each: tuple[Kind, int, int, float]) -> Rows:
    """Make events of (kind, sequence, offset, seconds), all of producer 0."""
    kind, sequence, offset, at = (np.array(each, float).reshape(-1, 4) * [1, 1, 1, SECOND]).T
    columns = [kind, np.zeros(len(kind)), sequence, offset, at, at - 1000]
    return rows_of([column.astype(np.int64) for column in columns], EVENTS)


def acked(*offsets: int, at: float = 1, first: int = 0) -> list[tuple[Kind, int, int, float]]:
    return [(Kind.ACKED, first + offset, offset, at) for offset in offsets]


def read(*offsets: int, at: float = 1, first: int = 0) -> list[tuple[Kind, int, int, float]]:
    return [(Kind.READ, first + offset, offset, at) for offset in offsets]


class Followed:
    """A partition whose state is stored and loaded again after each micro-batch."""

    def __init__(self, folder: Path, *batches: list[Event]) -> None:
        self.files = StateFiles(folder, fresh=True)
        self.partition = Partition(width=WIDTH)
        self.batch = 0
        self.changes: list[tuple[str, int]] = []
        for batch in batches:
            self.take(*batch)

    def take(self, *each: Event) -> list[tuple[str, int]]:
        """Apply a micro-batch; return the candidates that changed."""
        rows, matched = self.partition.take(
            events(*each), partial(self.files.matched_from, self.batch, KEY)
        )
        state = State(width=WIDTH, partitions={KEY: self.partition})
        self.files.save(self.batch, state, {KEY: matched})
        self.partition = self.files.load(self.batch).partitions[KEY]
        self.batch += 1
        changes = [(row["change"], row["sequence"]) for row in rows]
        self.changes += changes
        return changes


def test_a_read_of_a_higher_offset_makes_an_unseen_send_a_candidate(tmp_path):
    followed = Followed(tmp_path, acked(0, 1, 2, 3), read(0, 1, 3))
    assert followed.changes == [("raised", 2)]
    row = followed.partition.row()
    assert (row["acked"], row["read"], row["unseen"], row["candidates"]) == (4, 3, 1, 1)


def test_an_unseen_send_without_a_higher_read_is_no_candidate(tmp_path):
    followed = Followed(tmp_path, acked(0, 1, 2, 3), read(0, 1))
    assert followed.changes == []
    row = followed.partition.row()
    assert (row["unseen"], row["candidates"], row["lag"]) == (2, 0, 2)


def test_order_within_and_between_micro_batches_does_not_matter(tmp_path):
    for batches in (
        [acked(0, 1, 2) + read(0, 1, 2)],
        [read(0, 1, 2), acked(0, 1, 2)],
        [read(2, 1, 0) + acked(1), acked(2, 0)],
    ):
        followed = Followed(tmp_path, *batches)
        assert followed.changes == []
        assert followed.partition.row()["unseen"] == 0
        assert len(followed.partition.early) == 0


def test_another_record_at_the_acked_offset_is_no_match(tmp_path):
    # Offset 2 was acked for sequence 2; what is read there is sequence 102.
    followed = Followed(tmp_path, acked(0, 1, 2), read(0, 1), read(2, 3, first=100))
    assert followed.changes == [("raised", 2)]
    assert followed.partition.row()["candidates"] == 1


def test_a_candidate_that_is_read_is_withdrawn_once_and_may_be_raised_again(tmp_path):
    followed = Followed(
        tmp_path,
        acked(0, 1, 2),
        read(0, 2),
        [(Kind.READ, 1, 7, 2)],
    )
    assert followed.changes == [("raised", 1), ("withdrawn", 1)]
    assert followed.partition.row()["candidates"] == 0
    # Truncated to 5, and something else written from there on.
    changes = followed.take(*read(5, 9, first=500))
    assert changes == [("raised", 1)]


def test_sends_are_unseen_again_when_the_read_position_goes_back(tmp_path):
    followed = Followed(tmp_path, acked(0, 1, 2, 3, 4) + read(0, 1, 2, 3, 4))
    assert followed.partition.row()["unseen"] == 0
    changes = followed.take(*read(2, first=100))
    assert changes == [], "nothing above offset 2 is overtaken yet"
    assert followed.partition.row()["unseen"] == 3
    changes = followed.take(*read(3, 4, 5, first=100))
    assert changes == [("raised", 2), ("raised", 3), ("raised", 4)]
    # Reads that go back and return the same records lose nothing.
    followed = Followed(tmp_path, acked(0, 1, 2) + read(0, 1, 2), read(1, 2))
    assert followed.partition.row()["unseen"] == followed.partition.row()["candidates"] == 0


def test_a_send_without_an_offset_is_unseen_but_no_candidate(tmp_path):
    nowhere = [(Kind.ACKED, 0, NO_OFFSET, 1), (Kind.ACKED, 1, NO_OFFSET, 1)]
    followed = Followed(tmp_path, nowhere, [(Kind.READ, 1, 5, 1), (Kind.READ, 9, 6, 1)])
    assert followed.changes == []
    assert followed.partition.row()["unseen"] == 1


def test_a_damaged_record_is_read_and_its_send_is_not_seen(tmp_path):
    followed = Followed(tmp_path, acked(0, 1, 2) + read(0, 2) + [(Kind.READ_OTHER, 0, 1, 1)])
    assert followed.changes == [("raised", 1)]
    assert followed.partition.row()["read"] == 3


def test_failed_and_unknown_sends_are_never_unseen_and_their_reads_are_dropped(tmp_path):
    followed = Followed(
        tmp_path,
        [(Kind.READ, 0, 0, 1), (Kind.READ, 1, 1, 1)],
        [(Kind.UNKNOWN, 0, NO_OFFSET, 2), (Kind.FAILED, 1, NO_OFFSET, 2)],
        read(5, at=3),
    )
    assert followed.changes == []
    row = followed.partition.row()
    assert (row["failed"], row["unknown"], row["unseen"]) == (1, 1, 0)
    assert followed.partition.early["sequence"].tolist() == [5]


def test_state_does_not_grow_with_the_run(tmp_path):
    followed = Followed(tmp_path)
    for second in range(0, 3 * MEMORY_S, 60):
        offsets = range(second, second + 59)
        # Read, never acked: a send whose outcome is never recorded.
        unknown = (Kind.READ, 1_000_000 + second, second + 59, second)
        followed.take(*acked(*offsets, at=second), *read(*offsets, at=second), unknown)
        followed.partition.close((second - 10) * SECOND)
        followed.files.forget(followed.batch, State(width=WIDTH, newest=second * SECOND))
    assert len(followed.partition.early) <= MEMORY_S / 60 + 1
    assert len(list((tmp_path / "matched").iterdir())) <= MEMORY_S / 60 + 2
    assert len(list((tmp_path / "open").iterdir())) == 4, "two batches, two files each"
    assert len(followed.partition.windows) <= 10
    assert followed.partition.row()["unseen"] == 0


def test_windows_count_by_event_time_and_are_written_once(tmp_path):
    followed = Followed(
        tmp_path,
        [*acked(0, 1, at=1), (Kind.FAILED, 10, -1, 4.9), *read(0, at=4)],
        [*acked(2, at=6), (Kind.UNKNOWN, 11, -1, 6), *read(1, at=7)],
    )
    assert followed.partition.close(5 * SECOND - 1) == []
    (first,) = followed.partition.close(5 * SECOND)
    assert followed.partition.close(5 * SECOND) == []
    assert (first["start"], first["end"]) == (0, WIDTH)
    assert [first[name] for name in ("acked", "failed", "unknown", "read")] == [2, 1, 0, 1]
    assert first["acked_per_s"] == 2 / 5
    assert first["lag"] == 1, "acked up to 1 and read up to 0 at the window's end"
    (second,) = followed.partition.close(100 * SECOND)
    assert [second[name] for name in ("acked", "failed", "unknown", "read")] == [1, 0, 1, 1]
    assert (first["unseen"], second["unseen"], second["candidates"]) == (0, 1, 0)


def test_an_outage_lowers_the_availability_of_its_windows(tmp_path):
    steady = [moment / 10 for moment in range(50)]
    followed = Followed(tmp_path, [(Kind.ACKED, i, i, at) for i, at in enumerate(steady)])
    (before,) = followed.partition.close(20 * SECOND)
    assert before["availability"] > 0.99
    assert followed.partition.close(22 * SECOND) == [], (
        "whether the workload goes on is not known yet"
    )
    followed.take((Kind.ACKED, 100, 100, 17.5), (Kind.ACKED, 101, 101, 17.9))
    followed.take((Kind.ACKED, 102, 102, 18.3), (Kind.ACKED, 103, 103, 25.0))
    outage = followed.partition.close(25 * SECOND)
    assert [(row["start"] // SECOND, row["acked"]) for row in outage] == [(5, 0), (10, 0), (15, 3)]
    assert [row["availability"] for row in outage] == pytest.approx([0, 0, 0.8 / 5])


def test_before_its_first_send_a_partition_is_not_unavailable(tmp_path):
    followed = Followed(tmp_path, [(Kind.ACKED, i, i, 4 + i / 10) for i in range(30)])
    first, _ = followed.partition.close(20 * SECOND)
    assert first["start"] == 0
    assert first["availability"] > 0.99


def test_a_truncation_reverts_only_the_reads_from_its_offset_on(tmp_path):
    batches = [acked(*offsets) + read(*offsets) for offsets in (range(5), range(5, 10))]
    followed = Followed(tmp_path, *batches, read(7, first=100, at=2))
    assert sorted(followed.partition.unseen["sequence"].tolist()) == [7, 8, 9]
    followed.take(*read(7, first=200, at=3))
    assert sorted(followed.partition.unseen["sequence"].tolist()) == [7, 8, 9], "truncated again"


def test_a_send_that_was_read_again_is_reverted_from_where_it_was_read_last(tmp_path):
    whole = acked(*range(5)) + read(*range(5))
    # Truncated to 3; sequence 4 is written again, at offset 3. A truncation to 4 leaves it there.
    followed = Followed(tmp_path, whole, [(Kind.READ, 4, 3, 2), (Kind.READ, 9, 4, 2)])
    followed.take((Kind.READ, 10, 4, 3))
    assert followed.partition.unseen["sequence"].tolist() == [3]


def test_a_send_stays_seen_while_the_first_of_its_copies_is_left(tmp_path):
    followed = Followed(tmp_path, acked(0, 1) + read(0, 1) + [(Kind.READ, 0, 2, 1)])
    followed.take(*read(2, first=100, at=2))
    assert followed.partition.row()["unseen"] == 0


def test_keys_tell_sends_of_different_producers_apart():
    producer, sequence = np.meshgrid([0, 1, 7, 2**19 - 1], [0, 1, 2**44 - 1])
    sends = np.zeros(producer.size, SENDS)
    sends["producer"], sends["sequence"] = producer.ravel(), sequence.ravel()
    assert len(np.unique(keys(sends))) == producer.size
