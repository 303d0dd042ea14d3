"""The comparison of an audit's words with real brokers, as far as it needs no brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import audit_truth
import pytest
from audit_truth import LOSES, SURVIVES, UNDECIDED, Drawn, Schedule, Subject

from ackproof.scenario.loader import load
from ackproof_model.planning import Operation, OperationKind

SAFE = Drawn(
    kafka="3.8.1",
    replicas=3,
    minimum=2,
    acks="all",
    idempotence=True,
    unclean=False,
    racks=0,
)
FLEET = [
    Subject(number=0, drawn=SAFE),
    Subject(number=1, drawn=replace(SAFE, replicas=1, minimum=1)),
    Subject(number=2, drawn=replace(SAFE, acks="1", idempotence=False)),
]
POWER_LOSSES = Schedule(
    operations=tuple(
        Operation(kind=OperationKind.LOSE_POWER, broker=broker) for broker in range(3)
    ),
    wiped=1,
)


def test_draws_are_repeated_and_differ():
    drawn = [audit_truth.draw(41, number) for number in range(40)]
    assert drawn == [audit_truth.draw(41, number) for number in range(40)]
    assert len(set(drawn)) > 30
    assert all(one.minimum <= one.replicas for one in drawn)


@pytest.mark.parametrize(
    ("replicas", "failures"),
    [
        (1, ("power_loss",)),
        (2, ("power_loss", "power_loss")),
        (3, ("power_loss", "power_loss", "disk_replaced")),
    ],
)
def test_topic_sees_the_failures_of_its_own_replicas(replicas: int, failures: tuple[str, ...]):
    assert POWER_LOSSES.failures(replicas) == failures


def test_followers_that_lag_are_one_failure():
    lags = [Operation(kind=OperationKind.LAG, broker=broker) for broker in (1, 2)]
    assert Schedule(operations=tuple(lags)).failures(3) == ("lag",)


def test_rack_of_one_broker_that_loses_power_has_both_names():
    subject = Subject(number=0, drawn=replace(SAFE, racks=3))
    assert list(subject.names(("lag", "power_loss"))) == [("lag", "power_loss"), ("lag", "rack")]
    assert list(FLEET[0].names(("lag", "power_loss"))) == [("lag", "power_loss")]


def test_schedule_tests_losses_that_the_model_confirms_and_survived_sets():
    kill = Schedule(operations=(Operation(kind=OperationKind.KILL, broker=0),))
    assert list(audit_truth.tested(FLEET, kill)) == [
        (0, ("crash",), SURVIVES),
        (1, ("crash",), SURVIVES),  # the log stays
    ]  # acks=1 loses only what followers have not fetched yet
    late = Schedule(
        operations=(
            Operation(kind=OperationKind.WITHHOLD, broker=0, settled=False),
            *kill.operations,
        )
    )
    assert (2, ("crash",), LOSES) in audit_truth.tested(FLEET, late)


def test_trials_become_scenarios_with_a_topic_for_each_configuration(tmp_path: Path):
    found = list(audit_truth.trials(FLEET, 3))
    assert {word for trial in found for *_, word in trial.tests} == {LOSES, SURVIVES}
    for trial in found:
        (configured,) = load(audit_truth.write(FLEET, trial, tmp_path, "truth"))
        scenario = configured.scenario
        assert {"c0", "c1", "c2"} <= set(scenario.topics)
        wiped = [one for one in scenario.faults if one.fault == "wipe_partition"]
        assert len(wiped) == trial.schedule.wiped
    done = {test for trial in found for test in trial.tests}
    again = list(audit_truth.trials(FLEET, 3, done))
    assert all(trial.tests - done for trial in again)


def results(lost: dict[int, int], *, verdict: str = "holds") -> list[audit_truth.Result]:
    return [
        {
            "seed": 41,
            "kafka": "4.4.0",
            "verdict": verdict,
            "failures": {str(replicas): ["crash"] for replicas in (1, 2, 3)},
            "must_lose": [1],
            "lost": {str(number): count for number, count in lost.items()},
        }
    ]


def test_page_counts_what_runs_showed(monkeypatch: pytest.MonkeyPatch):
    words = {0: SURVIVES, 1: LOSES, 2: LOSES, 3: UNDECIDED}
    monkeypatch.setattr(Subject, "word", lambda self, failures: words[self.number])
    monkeypatch.setattr(Subject, "smallest", lambda self, failures: True)
    stored = [
        *results({0: 0, 1: 0, 2: 0, 3: 5}),
        *results({0: 3, 1: 7}),
        *results({0: 9, 1: 9}, verdict="inconclusive"),
    ]
    lines = list(audit_truth.page(stored))
    assert lines.count("| crash | loses | 1 | 1 | 2 | 1 |") == 2  # by failure, by set
    assert lines.count("| 4.4.0 | survives | 1 | 0 | 2 | 1 |") == 1
    assert lines[-1].endswith("survives crash")


def test_stored_runs_do_not_contradict_the_audit_of_today():
    found = audit_truth.outcomes(audit_truth.stored())
    for (number, failures, word), runs in found.items():
        assert any(runs) == (word == LOSES), (number, failures, word, runs)
