"""What an audit has once it is finished: verdicts, the worst losses, groups of alike topics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Verdict
from ackproof.audit.detail import Detail
from ackproof.audit.failure import Failure, Failures
from ackproof.audit.losses import KIND as LOSSES
from ackproof.audit.outputs.summary import summaries
from ackproof.audit.request import Request
from ackproof.audit.request import audit as audit_of
from support.audits import CRASH, LAG, POWER, audit, orders, risk

OPEN = risk(failures=(CRASH,), when={"acks": "1"})
ACCEPTED = risk(accepted="a reason")


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (orders(), Verdict.YES),
        (orders(risks=(risk(), risk(failures=(POWER,), accepted="a reason"))), Verdict.YES),
        (orders(risks=(OPEN,)), Verdict.YES),
        (replace(orders(risks=(OPEN,)), always_lost=False), Verdict.DEPENDS),
        (orders(risks=(OPEN, ACCEPTED)), Verdict.DEPENDS),
        (orders(risks=(), undecided=((LAG, POWER),)), Verdict.NOT_DECIDED),
        (orders(risks=(ACCEPTED,), undecided=()), Verdict.NO),
        (orders(risks=()), Verdict.NO),
    ],
)
def test_verdict(answer: Answer, verdict: Verdict) -> None:
    assert audit(answer).answers[0].verdict is verdict


def test_ways_are_counted_by_whether_they_depend_on_what_is_unstated() -> None:
    [answer] = audit(orders(risks=(risk(), risk(failures=(POWER,)), OPEN, ACCEPTED))).answers
    assert (answer.ways.always, answer.ways.sometimes) == (2, 1)
    assert answer.ways.unstated == ("acks",)


def test_the_worst_loss_has_a_trace_and_is_not_accepted() -> None:
    untold = risk(failures=(CRASH,), trace=())
    [answer] = audit(orders(risks=(ACCEPTED, untold, risk(case="B6")))).answers
    assert answer.worst == risk(case="B6")


@pytest.mark.parametrize("detail", [Detail.TABLES, Detail.TRACES])
def test_losses_have_traces_if_they_are_shown_and_the_worst_in_any_case(detail: Detail) -> None:
    producer = Path(__file__).parents[3] / "data" / "own_config" / "producer.properties"
    [answer] = audit_of(Request(files=(producer,), kafka="3.9.1", detail=detail)).answers
    found = [one for one in answer.risks if one.kind is LOSSES]
    traced = [one for one in found if one.trace]
    assert answer.worst is not None
    assert answer.worst.trace
    assert len(traced) == (len(found) if detail is Detail.TRACES else 0)


@pytest.mark.parametrize(("topics", "answers"), [(20, 20), (21, 1)])
def test_one_answer_stands_for_many_alike_topics(topics: int, answers: int) -> None:
    whole = audit(*(orders(topic=f"t{number}") for number in range(topics)))
    assert len(whole.answers) == answers
    assert len(whole.answers[0].alike) == (0 if answers == topics else topics - 1)
    [group] = whole.groups
    assert len(group.topics) == topics


def test_a_topic_that_fails_is_not_folded_into_those_that_do_not() -> None:
    """After a comparison only new risks fail, such as those of the last of many alike topics."""
    added = orders(topic="added", risks=(risk(failing=True),))
    known = [orders(topic=f"t{number}", risks=(risk(),)) for number in range(30)]
    whole = audit(*known, added)
    assert whole.fails
    assert [len(group.topics) for group in whole.groups] == [30, 1]


@pytest.mark.parametrize(
    ("ordinary", "rare"),
    [
        ((CRASH,), (LAG, CRASH)),
        ((LAG, CRASH), (POWER,)),
        ((CRASH, CRASH), (POWER,)),
        ((POWER,), (Failure.RACK,)),
        ((LAG, POWER), (POWER, POWER)),
    ],
)
def test_ordinary_failures_come_first_however_many_sets_lose(
    ordinary: Failures, rare: Failures
) -> None:
    many = tuple(risk(failures=(*rare, *[CRASH] * number)) for number in range(3))
    one = orders(topic="one", risks=(risk(failures=ordinary),))
    whole = audit(orders(topic="many", risks=many), one)
    assert [group.topics for group in whole.groups] == [("one",), ("many",)]
    both = audit(orders(risks=(*many, risk(failures=ordinary)))).answers[0]
    assert both.worst is not None
    assert both.worst.failures == ordinary


def test_the_weakest_of_two_producers_has_the_headline() -> None:
    files = ("min-producer", "min-producer-acks-1", "min-kraft-three")
    folder = Path(__file__).parents[3] / "data" / "cases"
    paths = tuple(folder / f"{name}.properties" for name in files)
    first, second = summaries(audit_of(Request(files=paths, kafka="3.9.1")))
    assert first.answer.settings["acks"].value == "1"
    assert first.answer.worst is not None
    assert first.answer.worst.failures == (Failure.CLEAN_RESTART,)
    assert first.verdict_text.startswith("after a broker restarts, ")
    assert second.answer.settings["acks"].value == "all"


def test_a_loss_with_every_factor_above_1_is_as_ordinary_as_one_without_a_condition(
    tmp_path: Path,
) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("bootstrap.servers=a:9092\nacks=1\n")
    [alone] = summaries(audit_of(Request(files=(path,))))
    assert alone.verdict_text.startswith(
        "after a broker restarts, with any replication factor above 1, and in one more way"
    )
    one = tmp_path / "topics.txt"
    one.write_text(
        "Topic: orders\tTopicId: u84nOUF5Qdu3fVZDJCRdEg\tPartitionCount: 1\t"
        "ReplicationFactor: 1\tConfigs: \n"
    )
    [of_one] = summaries(audit_of(Request(files=(path, one))))
    assert of_one.answer.settings["replication.factor"].value == "1"
    assert "with any replication factor" not in of_one.verdict_text


def test_failures_of_routine_operation_come_before_a_move_of_replicas() -> None:
    moved = risk(failures=(Failure.REASSIGNMENT,))
    [answer] = audit(orders(risks=(moved, risk(failures=(CRASH,))))).answers
    assert answer.worst is not None
    assert answer.worst.failures == (CRASH,)
