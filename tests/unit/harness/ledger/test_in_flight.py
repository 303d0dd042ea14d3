"""The window of unsettled sends forgets nothing, however sends settle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ackproof.ledger.producer_ledger import InFlight


@given(
    partitions=st.integers(1, 5),
    chunks=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 100)), max_size=30),
    data=st.data(),
)
def test_it_agrees_with_a_plain_dictionary(partitions, chunks, data):
    """Chunks are handed over partition by partition; any share of what is open settles."""
    window = InFlight(capacity=4)
    expected: dict[int, int] = {}
    following = 0
    for at, (size, share) in enumerate(chunks, start=1):
        stop = following + size
        window.admit(following, stop)
        for start in range(following, min(following + partitions, stop)):
            sequences = range(start, stop, partitions)
            window.hand_over(np.array(sequences), at)
            expected |= dict.fromkeys(sequences, at)
        following = stop
        settling = data.draw(st.permutations(sorted(expected)))[: len(expected) * share // 100]
        sent_at = window.settle(np.array(settling, np.int64))
        assert sent_at.tolist() == [expected.pop(sequence) for sequence in settling]
        assert window.count == len(expected)
    assert window.rest().tolist() == sorted(expected)


def test_a_send_that_never_settles_is_kept_while_millions_pass():
    window = InFlight(capacity=8)
    window.admit(0, 1)
    window.hand_over(np.arange(1), 17)
    for start in range(1, 1_000_000, 1000):
        window.admit(start, start + 1000)
        window.hand_over(np.arange(start, start + 1000), 18)
        window.settle(np.arange(start, start + 1000))
    assert window.rest().tolist() == [0]
    assert window.settle(np.array([0])).tolist() == [17]


def test_it_does_not_grow_while_sends_settle():
    window = InFlight(capacity=1024)
    for start in range(0, 100_000, 100):
        window.admit(start, start + 100)
        window.hand_over(np.arange(start, start + 100), 1)
        window.settle(np.arange(start, start + 100))
    assert len(window._sent_at) == 1024
