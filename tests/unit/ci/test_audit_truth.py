"""The comparison of an audit's words with real brokers, as far as it needs no brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import audit_truth
import pytest
from audit_truth import LOSES, SURVIVES, Drawn

from ackproof.audit.risks import found_sets
from ackproof.scenario.loader import load

SAFE = Drawn(
    kafka="3.8.1",
    replicas=3,
    minimum=2,
    acks="all",
    idempotence=True,
    unclean=False,
    racks=0,
)


def trials(drawn: Drawn) -> list[audit_truth.Trial]:
    ((setup,),) = audit_truth.setups(drawn.own())
    return list(audit_truth.trials(setup, chance=Random(1), most=2))


def test_draws_are_repeated_and_differ():
    drawn = [audit_truth.draw(41, number) for number in range(40)]
    assert drawn == [audit_truth.draw(41, number) for number in range(40)]
    assert len(set(drawn)) > 30
    assert all(one.minimum <= one.replicas for one in drawn)


def test_loss_becomes_a_schedule_that_loses_and_a_survived_set_one_that_does_not(tmp_path: Path):
    found = trials(SAFE)
    planned = [one for one in found if one.plans]
    assert {one.word for one in planned} == {LOSES, SURVIVES}
    for trial in planned:
        assert all(bool(plan.lost) == (trial.word == LOSES) for plan in trial.plans)
        for path in audit_truth._write(SAFE, trial, tmp_path):
            (configured,) = load(path)
            assert configured.scenario.faults
            assert configured.scenario.expect.loss == ("some" if trial.word == LOSES else "none")


def test_survived_set_that_loses_in_the_model_is_a_contradiction(monkeypatch: pytest.MonkeyPatch):
    assert not any(one.contradicted for one in trials(SAFE))

    def wrong(setup):
        found = found_sets(setup)
        return replace(found, losing=(), survived=(("lag", "power_loss"),))

    monkeypatch.setattr(audit_truth, "found_sets", wrong)
    assert [one.contradicted for one in trials(SAFE)] == [True]


def test_table_counts_what_runs_showed():
    ran = {"verdict": "holds", "lost": 3}
    kept = {"verdict": "holds", "lost": 0}
    unclear = {"verdict": "inconclusive", "lost": 0}
    told = {"failures": ["crash"], "schedules": 1, "contradicted": False}
    results = [
        {"trials": [{**told, "word": LOSES, "tries": [kept, ran]}]},
        {"trials": [{**told, "word": SURVIVES, "tries": [ran]}]},
        {"trials": [{**told, "word": SURVIVES, "tries": [unclear, kept]}]},
    ]
    assert list(audit_truth.table(results))[3:] == [
        "| loses | crash | 1 | 1 | 1 | 1 | 2 | 1 | 0 |",
        "| survives | crash | 2 | 2 | 2 | 1 | 2 | 1 | 0 |",
    ]
