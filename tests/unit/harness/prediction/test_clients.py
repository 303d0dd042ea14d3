"""What the model says of transactions and groups of consumers, as a scenario has them."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.judgement.findings import contradictions
from ackproof.prediction.clients import predict_clients
from ackproof.prediction.replication import predict
from ackproof.scenario.model import Scenario

NO_FAULT = {"fault": "none"}
KILL = {"fault": "kill", "target": "leader of orders-0"}
PAUSE = {"fault": "pause_client", "client": "consumers"}


def scenario(*faults: dict[str, Any], version: str = "4.3.1", **workload: Any) -> Scenario:
    settings = {"acks": "all", "enable.idempotence": True}
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "clients",
            "kafka": version,
            "topics": {name: {"partitions": 1} for name in ("orders", "invoices")},
            "workload": {"topic": "orders", "settings": settings, **workload},
            "faults": list(faults),
        }
    )


def told(asked: Scenario) -> dict[str, str]:
    return {str(anomaly): likelihood.value for anomaly, likelihood, _ in predict_clients(asked)}


def test_without_transactions_and_groups_there_is_no_prediction():
    assert told(scenario(KILL)) == {}
    assert "aborted-read" not in predict(scenario()).predicted


def test_an_unsupported_fault_may_delay_a_commit():
    found = predict(scenario({"fault": "wipe_volume", "target": 1}, transactions={}))
    assert found.predicted["aborted-read"] == "possible"
    assert "KAFKA-17754" in found.prediction.reasons["aborted-read"]


@pytest.mark.parametrize("version", ["3.5.2", "3.9.1", "4.3.1"])
@pytest.mark.parametrize(
    ("transactions", "faults", "expected"),
    [
        ({}, [], ("impossible", "impossible")),
        ({}, [NO_FAULT], ("impossible", "impossible")),
        ({"zombie_in": 2}, [], ("impossible", "impossible")),
        ({"zombie_in": 2, "successor": "new"}, [], ("impossible", "possible")),
        ({}, [KILL], ("possible", "possible")),
    ],
)
def test_predictions_for_transactions(version, transactions, faults, expected):
    found = told(scenario(*faults, version=version, transactions=transactions))
    assert found == dict(zip(("aborted-read", "zombie-commit"), expected, strict=True))


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        ("before", ("possible", "possible")),
        ("after", ("impossible", "possible")),
        ("auto", ("possible", "possible")),
        ("never", ("impossible", "possible")),
        ("transaction", ("impossible", "impossible")),
    ],
)
def test_predictions_for_a_group(commit, expected):
    group = {"commit": commit, "into": ["invoices"] if commit == "transaction" else []}
    found = told(scenario(consumers={"billing": group}))
    assert found == dict(zip(("unprocessed", "reprocessed"), expected, strict=True))


@pytest.mark.parametrize(
    ("group", "faults", "unprocessed"),
    [
        ({"commit": "after"}, [], "impossible"),
        ({"commit": "after", "via": "assign"}, [], "impossible"),
        ({"commit": "after", "via": "assign"}, [PAUSE], "possible"),
        ({"commit": "after"}, [PAUSE], "impossible"),
        ({"commit": "after"}, [KILL], "possible"),
        ({"commit": "after", "settings": {"auto.offset.reset": "latest"}}, [], "possible"),
    ],
)
def test_predictions_of_unprocessed_records(group, faults, unprocessed):
    assert told(scenario(*faults, consumers={"billing": group}))["unprocessed"] == unprocessed


def test_the_strongest_prediction_of_several_groups_counts():
    groups = {"billing": {"commit": "after"}, "audit": {"commit": "before"}}
    record = predict(scenario(consumers=groups))
    assert record.predicted["unprocessed"] == "possible"
    assert record.prediction.reasons["unprocessed"].startswith("audit: ")


def test_an_impossible_anomaly_that_is_observed_is_a_finding():
    predicted = predict(scenario(transactions={})).predicted
    (finding,) = contradictions(predicted, {"aborted-read": 2}, conclusive=True)
    assert finding.anomaly == "aborted-read"


def test_without_a_profile_there_is_no_prediction_for_clients():
    record = predict(scenario(version="2.6.2", transactions={}))
    assert "aborted-read" not in record.predicted
