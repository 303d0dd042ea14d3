"""Producers' numbers as indices: those of the workload, then those of the probe."""

from __future__ import annotations

import numpy as np
import pyarrow.fs as pafs
import pytest

from ackproof_spark.matching.row_groups import (
    MAX_PRODUCERS,
    Layout,
    Producers,
    SendGroup,
    TakeGeneralPath,
)
from ackproof_spark.tables import PROBE_PRODUCERS as PROBE

BOTH = Producers(workload=3, probe=2)


def group(low: int, high: int, *, last_sequence: int = 0) -> SendGroup:
    return SendGroup(
        path="p",
        number=0,
        rows=1,
        topics=("t", "t"),
        producers=(low, high),
        sequences=(0, last_sequence),
        first=None,
        last=None,
        without_offset=1,
        constant={},
    )


def layout(*groups: SendGroup) -> Layout:
    return Layout(filesystem=pafs.LocalFileSystem(), sends=groups, records=())


def test_each_index_has_one_number_and_unknown_numbers_have_no_index() -> None:
    numbers = np.array([0, 2, PROBE, PROBE + 1])
    assert BOTH.indices(numbers).tolist() == [0, 2, 3, 4]
    assert BOTH.numbers(np.arange(BOTH.count)).tolist() == [0, 1, 2, PROBE, PROBE + 1]
    assert BOTH.number(4) == PROBE + 1
    for unknown in (-1, 3, 4, PROBE - 1, PROBE + 2):
        assert BOTH.indices(np.array([unknown, PROBE])).tolist()[0] < 0, unknown
    none = Producers(workload=3, probe=0)
    assert (none.indices(np.array([2, 3, PROBE])) < 0).tolist() == [False, True, True]


def test_producers_and_their_highest_sequences_follow_from_the_ledger() -> None:
    both = layout(
        group(0, 1, last_sequence=7), group(1, 1, last_sequence=9), group(PROBE + 1, PROBE + 1)
    )
    assert both.producers == Producers(workload=2, probe=2)
    assert both.bounds.tolist() == [7, 9, -1, 0]
    assert layout().bounds.tolist() == []


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 0), (0, PROBE), (0, MAX_PRODUCERS), (PROBE, PROBE + MAX_PRODUCERS)]
)
def test_too_many_producers_are_refused(low: int, high: int) -> None:
    with pytest.raises(TakeGeneralPath, match=f"producers are numbered {low} to {high}"):
        _ = layout(group(low, high)).producers
