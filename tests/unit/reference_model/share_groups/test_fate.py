"""What may happen to a record of a share group, by hand; Kafka's classes have the rules below."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from ackproof_model.configuration import Profile
from ackproof_model.share_groups import ANOMALIES, KINDS, ShareModel, search
from ackproof_model.share_groups.coordinator import UNINITIALIZED
from ackproof_model.share_groups.fate import initial_start
from ackproof_model.share_groups.partition import (
    Delivery,
    Fetched,
    InFlight,
    Partition,
    Settings,
    State,
    acquire,
    expire,
    log_start_moved,
)


def found(**model: Any) -> dict[str, list[str]]:
    """Return the steps to each anomaly that is possible; every search comes to its end."""
    result = search(ShareModel(**{"kafka_version": "4.4.0", **model}), until=ANOMALIES)
    assert result.complete or result.traces.keys() == set(ANOMALIES)
    return {anomaly: [label for label, _ in trace] for anomaly, trace in result.traces.items()}


@pytest.mark.parametrize(
    ("model", "anomalies"),
    [
        ({}, set()),
        ({"word": "reject"}, set()),
        ({"word": "release"}, {"archived-unprocessed"}),
        ({"most": {"slow": 1}}, {"redelivered", "reprocessed"}),
        ({"most": {"crashes": 4}}, {"redelivered", "reprocessed"}),
        ({"most": {"crashes": 5}}, {"redelivered", "reprocessed", "archived-unprocessed"}),
        ({"most": {"leader_moves": 1}}, {"redelivered", "reprocessed"}),
        (
            {"limit": 2, "most": {"leader_moves": 1}, "word": "release"},
            {"redelivered", "archived-unprocessed", "over-delivered"},
        ),
        (
            {"reset": "latest", "most": {"leader_moves": 1}},
            {"undelivered"},
        ),
        (
            {"most": {"state_losses": 1}},
            {"delivered-after-accept", "reprocessed"},
        ),
        ({"most": {"log_losses": 1}}, {"undelivered"}),
        ({"word": "any"}, {"archived-unprocessed", "reprocessed"}),
        ({"word": "any", "limit": 1}, {"archived-unprocessed"}),
        ({"word": "accept", "letters_fail": True}, set()),
        ({"word": "reject", "letters_fail": True}, {"dead-letter-missing"}),
        (
            {"limit": 1, "letters_fail": True, "most": {"slow": 1}},
            {"dead-letter-missing"},
        ),
    ],
)
def test_what_may_happen_to_a_record(model: dict[str, Any], anomalies: set[str]) -> None:
    assert found(**model).keys() == anomalies


@pytest.mark.parametrize(
    ("version", "reset", "skips"),
    [
        ("4.2.0", "latest", True),
        ("4.3.1", "latest", True),
        ("4.3.1", "earliest", False),
        ("4.4.0", "latest", False),
    ],
)
def test_an_added_partition_begins_at_latest_before_4_4(
    version: str, reset: str, skips: bool
) -> None:
    anomalies = found(kafka_version=version, reset=reset, added=True)
    assert anomalies.keys() == ({"undelivered"} if skips else set())
    assert initial_start(Profile.of(version), known_topic=False) == UNINITIALIZED


def test_a_record_is_given_up_after_as_many_deliveries_as_the_limit() -> None:
    for limit in (1, 3, 10):
        steps = found(word="release", limit=limit)["archived-unprocessed"]
        assert sum("gets it" in step for step in steps) == limit


def test_more_deliveries_than_three_lead_to_nothing_else() -> None:
    """`predict` searches three of them if nothing is counted."""
    for word in ("accept", "release", "reject", "any"):
        for kind in KINDS[:4]:
            model = {"word": word, "most": {kind: inf}}
            assert found(**model, limit=3).keys() == found(**model, limit=5).keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word": "renew"}, "word 'renew' is not one of accept, release, reject, any"),
        ({"kafka_version": "4.1.2"}, "4.1.2 has no share groups: use 4.2 or later"),
    ],
)
def test_an_illegal_model_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ShareModel(**{"kafka_version": "4.4.0", **change})


def test_retention_beyond_all_records_in_flight_keeps_those_that_are_acquired() -> None:
    """The comparison with Kafka's class does not draw this."""
    settings = Settings(limit=5, locks=10, lock=10)
    read = Fetched("m", 0, ((0, 1),), most=5, batch=1)
    held, _ = acquire(Partition(0, 0), settings, read, 0)
    moved = log_start_moved(held, 7)
    assert (moved.start, moved.end, moved.batches) == (7, 7, held.batches)
    after, written = expire(moved, settings, 10)
    assert [(one.first, one.last, one.state) for one in written] == [(0, 1, State.ARCHIVED)]
    assert after.batches == (InFlight(0, (Delivery(State.ARCHIVED, 1),) * 2),)
    assert after.start == 7
