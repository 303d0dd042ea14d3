"""Which acks were late because of the client itself."""

from __future__ import annotations

import numpy as np
import pytest

from ackproof.clients.delivery_reports import Stalls

SECOND = 1_000_000


def late(stalls, sent_s, resolved_s):
    return stalls.late(
        np.array([int(sent_s * SECOND)], np.int64), np.array([int(resolved_s * SECOND)], np.int64)
    )


@pytest.fixture
def stalls():
    """Two stalls, from 10 to 10.5 s and from 20 to 20.2 s, and polls between."""
    found = Stalls()
    for before, now in [(9.99, 10.0), (10.0, 10.5), (10.5, 10.6), (19.9, 20.0), (20.0, 20.2)]:
        found.served(int(before * SECOND), int(now * SECOND))
    return found


@pytest.mark.parametrize(
    ("sent", "resolved", "because_of_the_client"),
    [
        (9.9, 10.5, True),  # its report waited
        (10.2, 10.55, True),  # it was due while nobody sent
        (10.45, 10.55, False),  # hardly any of it
        (10.55, 15.0, False),  # whatever the cluster did, nobody stalled
        (2.0, 10.5, False),  # 8 s are the cluster's
        (6.0, 10.5, True),  # more than a tenth
        (9.9, 20.3, False),  # 0.7 of 10.4 s
        (15.0, 20.3, False),
        (18.9, 20.3, True),
    ],
)
def test_an_ack_is_late_if_a_stall_is_much_of_its_latency(
    stalls, sent, resolved, because_of_the_client
):
    assert late(stalls, sent, resolved) == because_of_the_client


def test_without_a_stall_nothing_is_late():
    found = Stalls()
    found.served(0, 90_000)
    assert late(found, 0, 9) == 0
