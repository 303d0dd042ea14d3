"""What a prediction tells besides its likelihood: diagram, records at risk, error codes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof_model import draw, join, predict
from unit.reference_model.schedules import (
    CUT,
    DEMO,
    KILL_LEADER,
    LONG_CUT,
    NO_FAULT,
    isr,
    kill,
)

#: The leader is killed when it is alone in the ISR.
SHRUNK = (replace(CUT, heal_when=()), kill(when=(isr(1),), heal_or_after=20.0))


def test_the_diagram_has_a_line_for_each_step_of_the_story(configure):
    told = predict(configure(acks="1"), DEMO)
    assert [line.at for line in told.diagram.lines] == [str(n) for n in range(1, len(told.trace))]
    head, *lines = draw(told.diagram)
    assert head.split() == ["producer", "controller", "A", "B", "C"]
    assert len(lines) == len(told.trace) - 1  # the last sentence sums up
    places = {name: head.index(name) for name in "ABC"}
    (ack,) = [line for line in lines if "ack for record" in line]
    assert ack.index("<") < ack.index("o")
    assert abs(ack.index("o") - places["A"]) <= 1
    (fenced,) = [line for line in lines if line.endswith("fence")]
    assert fenced.count("*") == 2


def test_no_trace_has_a_killed_broker_in_the_isr(configure):
    unclean = configure(min_insync_replicas=1, unclean_leader_election=True)
    told = predict(unclean, SHRUNK).trace
    fenced = next(number for number, one in enumerate(told) if "fences A" in one)
    assert told[fenced].endswith("B is elected uncleanly, leader epoch 1. The ISR is {B}.")
    assert not any("A, B, C}" in one for one in told[fenced:])


@pytest.mark.parametrize(
    ("schedule", "min_isr", "unclean", "says"),
    [
        (DEMO, 2, False, "B is elected from the ISR, leader epoch 1. The ISR is {B, C}."),
        (SHRUNK, 1, True, "B is elected uncleanly, leader epoch 1. The ISR is {B}."),
    ],
)
def test_every_election_in_a_trace_tells_the_isr(configure, schedule, min_isr, unclean, says):
    made = configure(acks="1", min_insync_replicas=min_isr, unclean_leader_election=unclean)
    elections = [one for one in predict(made, schedule).trace if " is elected " in one]
    assert elections[0].endswith(says)
    assert all("The ISR is {" in one for one in elections)


@pytest.mark.parametrize(
    ("acks", "schedule", "at_risk"),
    [
        ("all", DEMO, ()),
        (
            "1",
            DEMO,
            (
                "before fault 1 (isolate_replication) begins, and not yet replicated then",
                "after fault 1 (isolate_replication) is verified and before fault 2 (kill) is",
            ),
        ),
        ("1", NO_FAULT, ()),
        ("1", KILL_LEADER, ("before fault 1 (kill) begins, and not yet replicated then",)),
    ],
)
def test_records_at_risk_are_those_that_some_way_loses(configure, acks, schedule, at_risk):
    assert predict(configure(acks=acks), schedule).at_risk == at_risk


@pytest.mark.parametrize(
    ("acks", "schedule", "codes"),
    [
        ("0", DEMO, ()),
        ("all", NO_FAULT, ()),
        ("1", DEMO, ("NOT_LEADER_OR_FOLLOWER",)),
        ("all", DEMO, ("NOT_LEADER_OR_FOLLOWER",)),
        (
            "all",
            LONG_CUT,
            ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"),
        ),
    ],
)
def test_error_codes_are_those_that_were_answered(configure, acks, schedule, codes):
    assert predict(configure(acks=acks), schedule).error_codes == codes


def test_joined_predictions_tell_of_all(configure):
    one, other = predict(configure(acks="1"), DEMO), predict(configure(), DEMO)
    joined = join([other, one])
    assert joined.diagram == one.diagram
    assert joined.at_risk == one.at_risk
    assert joined.error_codes == other.error_codes
    assert predict(configure(), DEMO).diagram is None
