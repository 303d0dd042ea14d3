"""Predictions are cached until the model changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import ackproof_model as reference_model
from ackproof.prediction import cache
from ackproof_model import (
    AnyTime,
    Configuration,
    Cuts,
    Ends,
    Injection,
    LeaderChanged,
    Prediction,
    Progress,
    QuorumLost,
    Role,
    Stalls,
    source_digest,
)
from ackproof_model.configuration import Profile, Reader
from ackproof_model.prediction.predict import MAX_STATES

CONFIGURATION = Configuration(
    kafka_version="4.3.1",
    acks="1",
    idempotence=False,
    retries=5,
    max_in_flight=1,
    replication_factor=3,
    min_insync_replicas=2,
)
FAULTS = [
    Injection(
        fault="cut",
        effects=(Cuts(channels=("replication",)),),
        targets=frozenset({Role.LEADER, Role.ANY_ONE}),
    ),
    Injection(
        fault="kill",
        effects=(Ends(),),
        targets=frozenset({Role.SAME}),
        when=(Progress(outcome="acked", more=True),),
        heal_when=(LeaderChanged(),),
    ),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The numbers of faults in the schedules that the model searched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    really, found = reference_model.predict, []

    def predict(
        configuration: Configuration, schedule: Sequence[Injection], *, max_states: int
    ) -> Prediction:
        found.append(len(schedule))
        return really(configuration, schedule, max_states=max_states)

    monkeypatch.setattr(reference_model, "predict", predict)
    return found


def test_the_same_question_is_searched_once(asked: list[int]) -> None:
    first = cache.predict(CONFIGURATION, FAULTS)
    assert cache.predict(CONFIGURATION, list(FAULTS)) == first
    assert asked == [2]
    assert first.trace
    assert cache.predict(CONFIGURATION, FAULTS, max_states=3) != first
    assert asked == [2, 2]


def test_another_question_is_searched(asked: list[int]) -> None:
    cache.predict(CONFIGURATION, [])
    cache.predict(CONFIGURATION, FAULTS[:1])
    cache.predict(CONFIGURATION, [FAULTS[1]])
    assert asked == [0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"kafka_version": "4.2.2"}, True),
        ({"kafka_version": "4.1.1"}, True),
        ({"kafka_version": "4.0.2"}, False),
        ({"kafka_version": "4.0.2", "elr": True}, False),
        ({"elr": True}, True),
        ({"elr": False}, False),
        ({"retries": 7}, True),
        ({"retries": 2}, False),
        ({"max_in_flight": 3}, True),
        ({"max_in_flight": 1}, False),
        ({"delivery_timeout_s": 40.0}, True),
        ({"delivery_timeout_s": 20.0}, False),
        ({"brokers": 3}, True),
        ({"brokers": 4}, False),
        ({"session_timeout_s": 9.0}, True),
        ({"session_timeout_s": 6.0}, False),
        ({"replica_lag_time_max_s": 5.0}, False),
        ({"unclean_leader_election": False}, True),
        ({"unclean_leader_election": True}, False),
        ({"acks": "all"}, False),
        ({"min_insync_replicas": 1}, False),
    ],
    ids=str,
)
def test_configurations_that_the_search_reads_alike_share_a_prediction(
    asked: list[int], changes: dict[str, object], *, shared: bool
) -> None:
    configuration = replace(CONFIGURATION, max_in_flight=2)
    first = cache.predict(configuration, FAULTS[1:])
    changed = replace(configuration, **changes)
    assert cache.predict(changed, FAULTS[1:]) == reference_model.predict(
        changed, FAULTS[1:], max_states=MAX_STATES
    )
    assert asked == ([1, 1] if shared else [1, 1, 1])
    assert first.complete


#: The controller reads them for moves of replicas, which the search of a schedule does not have.
OF_MOVES = {"completes_with_all", "smaller_completes_with_all"}


def test_the_search_reads_no_rule_of_transactions_and_groups() -> None:
    root = Path(reference_model.__file__).parent
    folders = ("replication", "prediction", "kafka")
    sources = [path.read_text() for one in folders for path in (root / one).rglob("*.py")]
    assert any("profile.broker_epochs" in source for source in sources)
    for rule in Profile.not_read_by(Reader.SCHEDULE) - OF_MOVES:
        assert not any(f".{rule}" in source for source in sources), rule


def test_a_changed_model_is_searched_again(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.predict(CONFIGURATION, [])
    monkeypatch.setattr(source_digest, "digest", lambda: "another")
    cache.predict(CONFIGURATION, [])
    assert asked == [0, 0]


def test_a_damaged_cache_is_ignored(asked: list[int], tmp_path: Path) -> None:
    first = cache.predict(CONFIGURATION, [])
    (stored,) = (tmp_path / "ackproof" / "predictions").iterdir()
    stored.write_text("{")
    assert cache.predict(CONFIGURATION, []) == first
    assert cache.predict(CONFIGURATION, []) == first
    assert asked == [0, 0]


def test_conditions_and_effects_that_differ_in_their_type_alone_are_different_questions(
    asked: list[int],
) -> None:
    for effect in (Stalls(), QuorumLost()):
        for condition in (LeaderChanged(), AnyTime()):
            fault = Injection(fault="x", effects=(effect,), heal_when=(condition,))
            cache.predict(CONFIGURATION, [fault], max_states=10)
    assert len(asked) == 4
