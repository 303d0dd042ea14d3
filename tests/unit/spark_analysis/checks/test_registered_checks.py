"""Every anomaly has a check, and the comparison runs each check that has input."""

from __future__ import annotations

import pytest

from ackproof_spark.anomaly import OF_REPLICAS, PREDICTED, Anomaly
from ackproof_spark.checks import comparison, registered
from ackproof_spark.checks.check import Check
from spark_histories import parse, write_run


def test_every_anomaly_has_a_check():
    of_records, of_clients = registered()
    found = [check.anomaly for check in of_records]
    assert len(found) == len(set(found))
    found += [anomaly for check in of_clients for anomaly in check.anomalies]
    assert set(found) == set(Anomaly) - set(OF_REPLICAS)


def test_an_anomaly_is_read_by_its_name():
    assert Anomaly("zombie-commit") is Anomaly.ZOMBIE_COMMIT
    assert f"{Anomaly.LOST} {PREDICTED[0]!s}" == "lost lost"


@pytest.mark.spark
def test_the_comparison_runs_the_checks_that_have_input(spark, tmp_path, monkeypatch):
    conditions = {
        Anomaly.LOST: {"suspects": "absent"},
        Anomaly.PHANTOM: {"suspects": "phantom"},
        Anomaly.GAP: {"suspects": "absent", "absent": "decidable"},
        Anomaly.UNSEEN: {"suspects": "absent", "absent": "not decidable"},
        Anomaly.CORRUPT: {"damaged": "true"},
    }
    run = []

    def check(anomaly):
        def find(tables):
            run.append(anomaly)
            return lost.find(tables)

        return Check(anomaly=anomaly, find=find, **conditions[anomaly])

    lost = next(one for one in registered()[0] if one.anomaly == Anomaly.LOST)
    planted = tuple(map(check, conditions))
    monkeypatch.setattr(comparison, "registered", lambda: (planted, ()))
    write_run(tmp_path, {"t": parse({"sends": ["1/0 to 0: acked at 0"], "ends": ["0: 0-1"]})})
    comparison.compare(spark, tmp_path)
    assert run == [Anomaly.LOST, Anomaly.GAP]
