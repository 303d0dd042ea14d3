"""Sets of sends are stored without loss and in little space."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ackproof_spark.live.sends import Sends, keys

_SEND = st.tuples(
    st.integers(0, 2),  # producer
    st.integers(0, 40),  # sequence
    st.integers(-1, 12),  # offset: few, so that some differences repeat
    st.integers(0, 1),  # window
    st.integers(0, 1),  # raised
)


def rows(sends: Sends) -> list[tuple[int, ...]]:
    columns = (sends.producer, sends.sequence, sends.offset, sends.window, sends.raised)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def made(sends: list[tuple[int, ...]]) -> Sends:
    columns = np.array(sends, np.int64).reshape(-1, 5).T
    names = ("producer", "sequence", "offset", "window", "raised")
    return Sends(**dict(zip(names, columns, strict=True)))


@given(st.lists(_SEND, unique_by=lambda send: send[:2], max_size=60))
def test_unpacking_returns_exactly_the_sends_that_were_packed(sends):
    assert rows(Sends.unpack(made(sends).pack())) == sorted(sends)


def test_a_million_sends_in_order_need_a_tenth_of_a_byte_each():
    each = 500_000
    sends = Sends.of(
        np.repeat([0, 1], each),
        np.tile(np.arange(each) * 3 + 2, 2),  # every third sequence goes to this of 3 partitions
        np.arange(2 * each),
        np.zeros(2 * each, np.int64),
    )
    packed = sends.pack()
    assert len(packed) < 2 * each / 10
    assert Sends.unpack(packed).offset.tolist() == sends.offset.tolist()


def test_keys_tell_sends_of_different_producers_apart():
    producer, sequence = np.meshgrid([0, 1, 7, 2**19 - 1], [0, 1, 2**44 - 1])
    assert len(np.unique(keys(producer.ravel(), sequence.ravel()))) == producer.size
