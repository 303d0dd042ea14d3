"""What Kafka promises, by settings, schedules and losses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.exploration.guarantee import broken
from ackproof_model.adversary import AdversaryModel
from ackproof_model.planning import Operation, OperationKind, Operations

KILLS = tuple(Operation(kind=OperationKind.KILL, broker=number) for number in range(3))
POWER = tuple(Operation(kind=OperationKind.LOSE_POWER, broker=number) for number in range(3))
#: With eligible leader replicas, and without.
ELR, OLDER = AdversaryModel(kafka_version="4.4.0"), AdversaryModel(kafka_version="3.4.1")


def lost(records: int, *cases: str, diverged: int | None = None) -> Any:
    causes = [SimpleNamespace(case=case) for case in cases]
    observed = {"lost": records} | ({} if diverged is None else {"diverged": diverged})
    return SimpleNamespace(
        observed=observed, predicted=dict.fromkeys(observed, "possible"), causes=causes
    )


@pytest.mark.parametrize(
    ("model", "operations", "cuts"),
    [
        (ELR, (), "no broker"),
        (OLDER, KILLS, "no broker"),
        (ELR, POWER[:1], "only 1 of 3 brokers"),
        (ELR, (*POWER[:1], *POWER[:1]), "only 1 of 3 brokers"),
        (replace(ELR, min_insync_replicas=3), POWER[:2], "only 2 of 3 brokers"),
        (replace(OLDER, flush_every_record=True), POWER, "no broker"),
    ],
)
def test_a_loss_that_kafka_promises_not_to_have_is_found_though_predicted(
    model: AdversaryModel, operations: Operations, cuts: str
) -> None:
    [found] = broken(model, operations, lost(7, "B31", "B14", "B14"))
    assert (found.anomaly, found.predicted, found.observed) == ("lost", "possible", 7)
    assert f"although {cuts} lost" in found.explanation
    assert found.explanation.endswith("(B14, B31)")


def test_a_loss_without_a_cause_says_so() -> None:
    [found] = broken(ELR, KILLS, lost(1))
    assert found.explanation.endswith("(no known cause)")


@pytest.mark.parametrize(
    ("model", "operations", "records"),
    [
        (ELR, (), 0),
        (replace(ELR, acks="1"), KILLS, 7),
        (replace(ELR, unclean_election=True), KILLS, 7),
        (AdversaryModel(kafka_version="0.10.2.2"), KILLS, 7),  # unclean elections by default
        (ELR, POWER[:2], 7),
        (OLDER, POWER[:1], 7),
    ],
)
def test_other_losses_break_no_promise(
    model: AdversaryModel, operations: Operations, records: int
) -> None:
    assert not list(broken(model, operations, lost(records, "B4")))


def test_replicas_in_sync_never_differ_whatever_the_settings() -> None:
    unclean = replace(OLDER, acks="1", unclean_election=True)
    [found] = broken(unclean, POWER, lost(7, diverged=2))
    assert (found.anomaly, found.predicted, found.observed) == ("diverged", "possible", 2)
    assert not list(broken(unclean, POWER, lost(7, diverged=0)))
    both = broken(OLDER, KILLS, lost(7, diverged=2))
    assert [found.anomaly for found in both] == ["lost", "diverged"]
