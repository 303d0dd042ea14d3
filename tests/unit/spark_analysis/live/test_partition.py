"""The state of one partition: unseen sends, candidates, reads that are reverted, windows."""

from __future__ import annotations

import numpy as np
import pytest

from ackproof_spark.live.partition import (
    MEMORY_S,
    Events,
    Kind,
    Partition,
)
from ackproof_spark.live.sends import NO_OFFSET

SECOND = 1_000_000
WIDTH = 5 * SECOND


def events(*each: tuple[Kind, int, int, float]) -> Events:
    """Make events of (kind, sequence, offset, seconds), all of producer 0."""
    kind, sequence, offset, at = np.array(each, float).reshape(-1, 4).T
    at = (at * SECOND).astype(np.int64)
    return Events(
        kind=kind.astype(np.int64),
        producer=np.zeros(len(kind), np.int64),
        sequence=sequence.astype(np.int64),
        offset=offset.astype(np.int64),
        at=at,
        sent_at=at - 1000,
    )


def acked(*offsets: int, at: float = 1, first: int = 0) -> list[tuple[Kind, int, int, float]]:
    return [(Kind.ACKED, first + offset, offset, at) for offset in offsets]


def read(*offsets: int, at: float = 1, first: int = 0) -> list[tuple[Kind, int, int, float]]:
    return [(Kind.READ, first + offset, offset, at) for offset in offsets]


def taken(*batches: list[tuple[Kind, int, int, float]]) -> tuple[Partition, list[tuple[str, int]]]:
    """Apply batches, storing the state in between; return also the changes of candidates."""
    partition = Partition(width=WIDTH)
    changes = []
    for batch in batches:
        partition = Partition.load(*partition.dump())
        changes += [(row["change"], row["sequence"]) for row in partition.take(events(*batch))]
    return partition, changes


def test_a_read_of_a_higher_offset_makes_an_unseen_send_a_candidate():
    partition, changes = taken(acked(0, 1, 2, 3), read(0, 1, 3))
    assert changes == [("raised", 2)]
    row = partition.row()
    assert (row["acked"], row["read"], row["unseen"], row["candidates"]) == (4, 3, 1, 1)


def test_an_unseen_send_without_a_higher_read_is_no_candidate():
    partition, changes = taken(acked(0, 1, 2, 3), read(0, 1))
    assert changes == []
    row = partition.row()
    assert (row["unseen"], row["candidates"], row["lag"]) == (2, 0, 2)


def test_order_within_and_between_micro_batches_does_not_matter():
    for batches in (
        [acked(0, 1, 2) + read(0, 1, 2)],
        [read(0, 1, 2), acked(0, 1, 2)],
        [read(2, 1, 0) + acked(1), acked(2, 0)],
    ):
        partition, changes = taken(*batches)
        assert changes == []
        assert partition.row()["unseen"] == 0
        assert len(partition.early) == 0


def test_another_record_at_the_acked_offset_is_no_match():
    # Offset 2 was acked for sequence 2; what is read there is sequence 102.
    partition, changes = taken(acked(0, 1, 2), read(0, 1), read(2, 3, first=100))
    assert changes == [("raised", 2)]
    assert partition.row()["candidates"] == 1


def test_a_candidate_that_is_read_is_withdrawn_once_and_may_be_raised_again():
    partition, changes = taken(
        acked(0, 1, 2),
        read(0, 2),
        [(Kind.READ, 1, 7, 2)],
    )
    assert changes == [("raised", 1), ("withdrawn", 1)]
    assert partition.row()["candidates"] == 0
    # Truncated to 5, and something else written from there on.
    changes = partition.take(events(*read(5, 9, first=500)))
    assert [(row["change"], row["sequence"]) for row in changes] == [("raised", 1)]


def test_sends_are_unseen_again_when_the_read_position_goes_back():
    partition, _ = taken(acked(0, 1, 2, 3, 4) + read(0, 1, 2, 3, 4))
    assert partition.row()["unseen"] == 0
    changes = partition.take(events(*read(2, first=100)))
    assert changes == [], "nothing above offset 2 is overtaken yet"
    assert partition.row()["unseen"] == 3
    changes = partition.take(events(*read(3, 4, 5, first=100)))
    assert [row["sequence"] for row in changes] == [2, 3, 4]
    # Reads that go back and return the same records lose nothing.
    partition, _ = taken(acked(0, 1, 2) + read(0, 1, 2), read(1, 2))
    assert partition.row()["unseen"] == partition.row()["candidates"] == 0


def test_a_send_without_an_offset_is_unseen_but_no_candidate():
    nowhere = [(Kind.ACKED, 0, NO_OFFSET, 1), (Kind.ACKED, 1, NO_OFFSET, 1)]
    partition, changes = taken(nowhere, [(Kind.READ, 1, 5, 1), (Kind.READ, 9, 6, 1)])
    assert changes == []
    assert partition.row()["unseen"] == 1


def test_a_damaged_record_is_read_and_its_send_is_not_seen():
    partition, changes = taken(acked(0, 1, 2) + read(0, 2) + [(Kind.READ_OTHER, 0, 1, 1)])
    assert changes == [("raised", 1)]
    assert partition.row()["read"] == 3


def test_failed_and_unknown_sends_are_never_unseen_and_their_reads_are_dropped():
    partition, changes = taken(
        [(Kind.READ, 0, 0, 1), (Kind.READ, 1, 1, 1)],
        [(Kind.UNKNOWN, 0, NO_OFFSET, 2), (Kind.FAILED, 1, NO_OFFSET, 2)],
        read(5, at=3),
    )
    assert changes == []
    row = partition.row()
    assert (row["failed"], row["unknown"], row["unseen"]) == (1, 1, 0)
    assert partition.early.sequence.tolist() == [5]


def test_state_does_not_grow_with_the_run():
    partition = Partition(width=WIDTH)
    for second in range(0, 3 * MEMORY_S, 30):
        offsets = range(second, second + 29)
        partition.take(events(*acked(*offsets, at=second), *read(*offsets, at=second)))
        # Read, never acked: a send whose outcome is never recorded.
        partition.take(events((Kind.READ, 1_000_000 + second, second + 29, second)))
        partition.close((second - 10) * SECOND)
    assert len(partition.early) <= MEMORY_S / 30 + 1
    assert len(partition.seen) <= MEMORY_S / 30 + 1
    assert len(partition.windows) <= 10
    assert partition.row()["unseen"] == 0


def test_windows_count_by_event_time_and_are_written_once():
    partition, _ = taken(
        [*acked(0, 1, at=1), (Kind.FAILED, 10, -1, 4.9), *read(0, at=4)],
        [*acked(2, at=6), (Kind.UNKNOWN, 11, -1, 6), *read(1, at=7)],
    )
    assert partition.close(5 * SECOND - 1) == []
    (first,) = partition.close(5 * SECOND)
    assert partition.close(5 * SECOND) == []
    assert (first["start"], first["end"]) == (0, WIDTH)
    assert [first[name] for name in ("acked", "failed", "unknown", "read")] == [2, 1, 0, 1]
    assert first["acked_per_s"] == 2 / 5
    assert first["lag"] == 1, "acked up to 1 and read up to 0 at the window's end"
    (second,) = partition.close(100 * SECOND)
    assert [second[name] for name in ("acked", "failed", "unknown", "read")] == [1, 0, 1, 1]
    assert (first["unseen"], second["unseen"], second["candidates"]) == (0, 1, 0)


def test_an_outage_lowers_the_availability_of_its_windows():
    steady = [moment / 10 for moment in range(50)]
    partition, _ = taken([(Kind.ACKED, i, i, at) for i, at in enumerate(steady)])
    (before,) = partition.close(20 * SECOND)
    assert before["availability"] > 0.99
    assert partition.close(22 * SECOND) == [], "whether the workload goes on is not known yet"
    partition.take(events((Kind.ACKED, 100, 100, 17.5), (Kind.ACKED, 101, 101, 17.9)))
    partition.take(events((Kind.ACKED, 102, 102, 18.3), (Kind.ACKED, 103, 103, 25.0)))
    outage = partition.close(25 * SECOND)
    assert [(row["start"] // SECOND, row["acked"]) for row in outage] == [(5, 0), (10, 0), (15, 3)]
    assert [row["availability"] for row in outage] == pytest.approx([0, 0, 0.8 / 5])


def test_before_its_first_send_a_partition_is_not_unavailable():
    partition, _ = taken([(Kind.ACKED, i, i, 4 + i / 10) for i in range(30)])
    first, _ = partition.close(20 * SECOND)
    assert first["start"] == 0
    assert first["availability"] > 0.99


def test_seen_sends_need_little_space():
    many = range(10_000)
    partition, _ = taken(acked(*many) + read(*many))
    *_, seen = partition.dump()
    assert len(partition.seen) == 1
    assert len(seen) < len(many) / 10


def test_a_truncation_reverts_only_the_reads_from_its_offset_on():
    batches = [acked(*offsets) + read(*offsets) for offsets in (range(5), range(5, 10))]
    partition, _ = taken(*batches, read(7, first=100, at=2))
    assert partition.row()["unseen"] == 3
    assert [each.last_offset for each in partition.seen] == [4, 6]
