"""What the probe did against what the model says of the same part of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from ackproof.judgement.findings import of_availability
from ackproof.runs.verdict import PartAvailability, PartitionState, Step

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


compared = partial(of_availability, settling_s=4)


def step(readable: str, *, seconds: float = 10, begun: int = 1) -> Step:
    state = PartitionState(
        topic="orders",
        partition=0,
        readable=readable,
        writable="unknown",
        readable_s=0,
        writable_s=0,
    )
    return Step(
        in_force=[0],
        begun=begun,
        healed=[],
        begin=BEGAN,
        end=BEGAN + timedelta(seconds=seconds),
        partitions=[state],
    )


def part(readable: str) -> PartAvailability:
    return PartAvailability(
        part="after fault 1 (kill) begins", begun=1, healed=[], readable=readable, writable="can"
    )


@pytest.mark.parametrize(
    ("predicted", "observed", "likelihood"),
    [
        (["cannot"], "yes", "impossible"),
        (["can"], "no", "certain"),
        (["can"], "yes", None),
        (["cannot"], "no", None),
        (["either"], "yes", None),
        (["either"], "no", None),
        (["can", "cannot"], "yes", None),
        (["can"], "unknown", None),
        (["cannot"], "unknown", None),
    ],
)
def test_only_contradictions_are_findings(predicted, observed, likelihood):
    found = compared(list(map(part, predicted)), [step(observed)], conclusive=True)
    assert [one.predicted for one in found] == ([] if likelihood is None else [likelihood])


def test_a_finding_names_partition_and_part():
    (found,) = compared([part("cannot")], [step("yes")], conclusive=False)
    assert found.explanation == "orders-0, after fault 1 (kill) begins: the probe could"
    assert (found.anomaly, found.observed) == ("readable", 1)


def test_what_was_not_done_is_no_finding_in_an_inconclusive_run():
    assert compared([part("can")], [step("no")], conclusive=False) == []


def test_other_parts_and_short_steps_are_not_compared():
    assert compared([part("cannot")], [step("yes", begun=2)], conclusive=True) == []
    assert compared([part("cannot")], [step("yes", seconds=8)], conclusive=True) == []
