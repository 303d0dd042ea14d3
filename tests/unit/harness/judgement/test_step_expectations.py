"""What `expect.steps` says of the probe, beside what it could do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof.judgement.expectations import check_steps, conclude, unknown_steps
from ackproof.runs.verdict import FaultReport, PartitionState, Step, Word
from ackproof.scenario.model import ExpectedStep

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ALONE = FaultReport.of_window(
    {
        "window": 1,
        "fault": "none",
        "target": "all",
        "nodes": [],
        "parameters": '{"id":"alone"}',
        "trigger": "",
        "injected_at": BEGAN,
        "verified_at": BEGAN,
        "healed_at": BEGAN + timedelta(seconds=8),
        "recovered_at": None,
        "verified": True,
        "evidence": "",
    }
)


def step(second: int, in_force: list[int], *answers: tuple[str, str]) -> Step:
    return Step(
        in_force=in_force,
        begun=len(in_force),
        healed=[],
        begin=BEGAN + timedelta(seconds=second),
        end=BEGAN + timedelta(seconds=second + 4),
        partitions=[
            PartitionState.model_validate(
                {
                    "topic": "orders",
                    "partition": number,
                    "readable": readable,
                    "writable": writable,
                    "readable_s": 0,
                    "writable_s": 0,
                }
            )
            for number, (readable, writable) in enumerate(answers)
        ],
    )


#: Only the last step in which the fault is in force counts.
BEFORE, AFTER = step(0, [0, 1], ("no", "no")), step(8, [0], ("no", "yes"))


@pytest.mark.parametrize(
    ("answers", "observed", "word"),
    [
        ([("yes", "no")], "readable, not writable", Word.HOLDS),
        ([("yes", "yes")], "readable, writable", Word.VIOLATED),
        ([("no", "no")], "not readable, not writable", Word.VIOLATED),
        ([("yes", "no"), ("yes", "no")], "readable, not writable", Word.HOLDS),
        ([("yes", "no"), ("no", "no")], "partly readable, not writable", Word.VIOLATED),
        ([("yes", "unknown")], "readable, perhaps writable", Word.INCONCLUSIVE),
        ([("no", "no"), ("unknown", "no")], "perhaps readable, not writable", Word.INCONCLUSIVE),
        ([], "perhaps readable, perhaps writable", Word.INCONCLUSIVE),
    ],
)
def test_every_partition_answers_at_the_end_of_a_step(answers, observed, word):
    expected = {"alone": ExpectedStep(readable=True, writable=False)}
    lines = check_steps(expected, [ALONE], [BEFORE, step(4, [0, 1], *answers), AFTER])
    assert [(line.what, line.observed) for line in lines] == [("step alone", observed)]
    assert conclude(lines, unknown_steps(lines))[0] is word


def test_what_does_not_matter_may_be_unknown():
    expected = {"alone": ExpectedStep(readable=True)}
    lines = check_steps(expected, [ALONE], [step(0, [1], ("yes", "unknown"))])
    assert [line.observed for line in lines] == ["readable"]
    assert conclude(lines, unknown_steps(lines)) == (
        Word.HOLDS,
        "as expected: step alone readable (observed readable)",
    )


def test_a_step_that_nobody_names_is_not_compared():
    assert check_steps({"dark": ExpectedStep(readable=True)}, [ALONE], [BEFORE]) == []
