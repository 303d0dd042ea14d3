"""Predictions on all cores: the same as in one process, and soon begun."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

from ackproof.prediction import predict as prediction
from ackproof.prediction.predict import predict, predict_each
from ackproof.scenario.model import Scenario

ACKS = ("0", "1", "all")


def scenario(acks: str) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "name": f"acks-{acks}",
            "kafka": "4.3.1",
            "topics": {"orders": {"partitions": 1, "replication_factor": 2}},
            "workload": {
                "topic": "orders",
                "settings": {"acks": acks, "enable.idempotence": False},
            },
            "faults": [{"fault": "kill", "target": "leader of orders-0", "when": "100 acked"}],
        }
    )


def test_several_processes_predict_the_same(monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    scenarios = [scenario(acks) for acks in ACKS]
    alone = [predict(one) for one in scenarios]
    assert len({record.predicted["lost"] for record in alone}) > 1
    assert predict_each(scenarios) == alone
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(prediction, "predict", lambda one: alone[scenarios.index(one)])
    assert predict_each(scenarios) == alone


def test_predicting_loads_no_library_of_tables() -> None:
    code = (
        "import sys, ackproof.cli.main, ackproof.prediction.predict\n"
        "import ackproof.judgement.expectations\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'docker'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
