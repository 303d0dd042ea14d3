"""Sets of sends stay the same, and small, when they are stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof_spark.live.sends import (
    NO_OFFSET,
    Runs,
    Sends,
    keys,
)

_SEND = st.tuples(
    st.integers(0, 2),  # producer
    st.integers(0, 40),  # sequence
    st.integers(-1, 12),  # offset: few, so that runs arise, and break
    st.integers(0, 1),  # window
    st.integers(0, 1),  # raised
)


def rows(sends: Sends) -> list[tuple[int, ...]]:
    columns = (sends.producer, sends.sequence, sends.offset, sends.window, sends.raised)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def made(found: list[tuple[int, ...]]) -> Sends:
    columns = np.array(found, np.int64).reshape(-1, 5).T
    names = ("producer", "sequence", "offset", "window", "raised")
    return Sends(**dict(zip(names, columns, strict=True)))


@given(st.lists(_SEND, unique_by=lambda send: send[:2], max_size=60))
def test_runs_hold_exactly_the_sends_they_were_made_of(found):
    runs = Runs.unpack(Runs.of(made(found)).pack())
    assert rows(runs.sends()) == sorted(found)
    assert int(runs.count.sum()) == len(found)


def test_a_million_sends_in_order_are_a_handful_of_runs():
    each = 500_000
    sends = Sends.of(
        np.repeat([0, 1], each),
        np.tile(np.arange(each) * 3 + 2, 2),  # every third sequence: of three partitions, this one
        np.arange(2 * each),
        np.zeros(2 * each, np.int64),
    )
    runs = Runs.of(sends)
    assert len(runs.count) == 2
    assert len(runs.pack()) < 200
    assert runs.last_offset.tolist() == [each - 1, 2 * each - 1]


def test_unknown_offsets_make_runs_as_well():
    count = 1000
    nowhere = np.full(count, NO_OFFSET)
    sends = Sends.of(np.zeros(count, np.int64), np.arange(count), nowhere, np.zeros(count, int))
    runs = Runs.of(sends)
    assert len(runs.count) == 1
    assert rows(runs.sends()) == rows(sends)


@pytest.mark.parametrize("column", [0, 3, 4])
def test_a_run_has_one_producer_one_window_and_one_mark(column):
    found = [[0, sequence, sequence, 0, 0] for sequence in range(10)]
    for send in found[5:]:
        send[column] = 1
    assert len(Runs.of(made([tuple(send) for send in found])).count) == 2


def test_keys_tell_sends_of_different_producers_apart():
    producer, sequence = np.meshgrid([0, 1, 7, 2**19 - 1], [0, 1, 2**44 - 1])
    assert len(np.unique(keys(producer.ravel(), sequence.ravel()))) == producer.size
