"""`--survive`: promised failures after which no acknowledged record may be lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from ackproof.audit.answer import Answer, Audit, Effect, Outcome
from ackproof.audit.diff import difference
from ackproof.audit.failing import thresholds, with_failing
from ackproof.audit.failure import Failure, Failures
from ackproof.audit.finishing import finished
from ackproof.audit.outputs import OUTPUTS
from ackproof.audit.outputs.json_document import document
from ackproof.audit.outputs.summary import promises as shown
from ackproof.audit.outputs.summary import summaries
from ackproof.audit.promise import promises, with_promised
from ackproof.audit.request import Request
from ackproof.audit.request import audit as audited
from ackproof.errors import ScenarioError
from ackproof.scenario.shipped import schema_of
from support.audits import CRASH, LAG, POWER, audit, orders, risk
from support.json_schemas import closed

CASES = Path(__file__).parents[3] / "data" / "cases"
RESTART, MOVE, RECREATED = Failure.CLEAN_RESTART, Failure.LEADER_MOVE, Failure.RECREATED


def promising(*answers: Answer, survive: Sequence[str], fail_on: Sequence[str] = ()) -> Audit:
    whole = with_promised(audit(*answers), promises(survive))
    counted = thresholds(fail_on, promised=True)
    return finished(with_failing(whole, counted))


def outcomes(whole: Audit) -> list[tuple[Failures, Outcome, bool]]:
    [answer] = whole.answers
    return [(one.failures, one.outcome, one.failing) for one in answer.promised]


@pytest.mark.parametrize(
    ("value", "sets"),
    [
        ("any 1 failure", ((CRASH,), (RESTART,), (RECREATED,), (MOVE,))),
        ("Any  1 failures", ((CRASH,), (RESTART,), (RECREATED,), (MOVE,))),
        ("crash, crash", ((CRASH, CRASH),)),
        ("lag+power_loss", ((POWER, LAG),)),
        ("clean_restart crash", ((CRASH, RESTART),)),
    ],
)
def test_value_is_a_number_of_any_failures_or_names_them(
    value: str, sets: tuple[Failures, ...]
) -> None:
    assert [one.sets for one in promises([value])] == [sets]


def test_any_two_failures_are_all_pairs() -> None:
    [two] = promises(["any 2 failures"])
    assert len(two.sets) == 10
    assert (CRASH, MOVE) in two.sets


@pytest.mark.parametrize(
    "value", ["", "any 0 failures", "any 4 failures", "boom", "crash, boom", "crash " * 4, "any 1"]
)
def test_bad_value_is_refused_with_what_is_legal(value: str) -> None:
    with pytest.raises(ScenarioError, match="--survive") as refused:
        promises([value])
    assert "any 1 failure" in refused.value.hint
    assert all(failure in refused.value.hint for failure in Failure)


def test_loss_within_promised_failures_breaks_the_promise() -> None:
    whole = promising(orders(), survive=["lag, power_loss, crash", "crash"])
    assert outcomes(whole) == [
        ((CRASH, POWER, LAG), Outcome.BROKEN, True),
        ((CRASH,), Outcome.KEPT, False),
    ]
    assert whole.fails
    assert not promising(orders(), survive=["crash"]).fails


def test_undecided_failures_fail_and_unknown_racks_are_undecided() -> None:
    doubtful = orders(undecided=((CRASH, MOVE),))
    assert outcomes(promising(doubtful, survive=["crash, leader_move, clean_restart"])) == [
        ((CRASH, RESTART, MOVE), Outcome.NOT_DECIDED, True)
    ]
    assert promising(orders(), survive=["rack"]).fails


def test_accepted_loss_does_not_break_a_promise() -> None:
    whole = promising(
        orders(risks=(risk(accepted="can be sent again"),)), survive=["lag,power_loss"]
    )
    assert outcomes(whole) == [((POWER, LAG), Outcome.ACCEPTED, False)]


def test_other_losses_fail_only_with_fail_on_and_refusals_always() -> None:
    assert not promising(orders(), survive=["crash"]).fails
    assert promising(orders(), survive=["crash"], fail_on=["lost"]).fails
    assert promising(orders(), survive=["lag, power_loss"], fail_on=["none"]).fails
    refused = risk(Effect.REFUSED, (), likelihood="certain")
    assert promising(orders(risks=(refused,)), survive=["crash"]).fails


def test_broken_promise_is_first_with_its_way(snapshot) -> None:
    """The loss after an ordinary failure comes behind the one that breaks the promise."""
    ordinary = risk(failures=(CRASH,), case="B2")
    whole = promising(
        orders(topic="a", risks=(ordinary,)), orders(topic="b"), survive=["lag, power_loss"]
    )
    promised = promising(orders(risks=(ordinary, risk())), survive=["lag, power_loss"])
    assert [one.topics for one in summaries(whole)] == [("b",), ("a",)]
    assert summaries(promised)[0].how_case == "B5"
    every = promising(
        orders(),
        orders(topic="c", undecided=((CRASH, MOVE),)),
        survive=["crash", "lag, power_loss", "any 2 failures"],
    )
    assert "\n".join(one.text for one in shown(every)) == snapshot


def test_after_a_comparison_only_what_got_worse_fails() -> None:
    stated = promises(["lag, power_loss", "crash, leader_move"])
    doubtful = audit(orders(undecided=((CRASH, MOVE),)))
    before, after = (with_promised(one, stated) for one in (audit(), doubtful))
    worse = replace(after, difference=difference(before, after, base="main"))
    same = replace(after, difference=difference(after, after, base="main"))
    counted = thresholds([], promised=True)
    assert [failing for *_, failing in outcomes(with_failing(worse, counted))] == [False, True]
    assert not with_failing(same, counted).fails


@pytest.mark.parametrize(("minimum", "fails"), [("1", True), ("2", False)])
def test_comparison_counts_more_records_at_risk(tmp_path: Path, minimum: str, fails: bool) -> None:
    """Both values lose after lag and a power loss, the smaller one what the leader acked alone."""
    server = "default.replication.factor=3\nmin.insync.replicas={}\n"
    for name, value in (("before", "2"), ("after", minimum)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "server.properties").write_text(server.format(value))
        (folder / "producer.properties").write_text("acks=all\nenable.idempotence=true\n")
    request = Request(
        files=(tmp_path / "after",),
        kafka="3.9.1",
        against=str(tmp_path / "before"),
        survive=("lag, power_loss",),
    )
    whole = audited(request)
    assert {one.outcome for answer in whole.answers for one in answer.promised} == {Outcome.BROKEN}
    assert whole.fails is fails


@pytest.mark.parametrize(
    ("producer", "outcome"),
    [("min-producer.properties", Outcome.KEPT), ("min-producer-acks-1.properties", Outcome.BROKEN)],
)
def test_one_ordinary_failure_of_a_configuration(producer: str, outcome: Outcome) -> None:
    files = (CASES / "min-kraft-three.properties", CASES / producer)
    whole = audited(Request(files=files, kafka="4.1.1", survive=("any 1 failure",)))
    assert {one.outcome for answer in whole.answers for one in answer.promised} == {outcome}
    assert whole.fails is (outcome is Outcome.BROKEN)


def test_sole_replica_keeps_what_a_planned_move_cannot_take() -> None:
    """Nobody can move the leader of one replica, so that no search has that failure."""
    files = (CASES / "min-07-one-broker.yml", CASES / "min-producer.properties")
    whole = audited(Request(files=files, survive=("any 1 failure",)))
    outcomes = {one.failures: one.outcome for each in whole.answers for one in each.promised}
    assert outcomes.pop((RECREATED,)) is Outcome.BROKEN  # the service has no volume
    assert set(outcomes.values()) == {Outcome.KEPT}


def test_outputs_have_promises() -> None:
    whole = promising(
        orders(undecided=((CRASH, MOVE),)),
        survive=["crash", "lag, power_loss", "crash, leader_move"],
    )
    printed = json.loads(json.dumps(document(whole)))
    jsonschema.validate(printed, closed(schema_of("audit")))
    assert printed["promises"] == ["crash", "lag, power_loss", "crash, leader_move"]
    assert printed["answers"][0]["promised"][0] == {
        "promise": "crash",
        "failures": ["crash"],
        "outcome": "kept",
        "failing": False,
    }
    cases = ET.fromstring(OUTPUTS["junit"].render(whole)).iter("testcase")
    failed = {case.get("name"): case.find("failure") is not None for case in cases}
    assert failed["promise to survive crash: a broker crashes"] is False
    undecided = "promise to survive crash, leader_move: a broker crashes and the leader is moved"
    assert failed[undecided] is True
    [run] = json.loads(OUTPUTS["sarif"].render(whole))["runs"]
    errors = [one["ruleId"] for one in run["results"] if one["level"] == "error"]
    assert errors == ["lost/B5", "promise/not-decided"]
    assert "promise/not-decided" in OUTPUTS["annotations"].render(whole)
    for name in ("markdown", "html"):
        assert shown(whole)[0].text.split(":")[0] in OUTPUTS[name].render(whole).replace(
            "&#39;", "'"
        )
