"""Histories with known verdicts, and random ones, in Spark and in the oracle in plain Python.

The hand-made ones, positive and negative, are `*.json` in this folder, in the notation of
`spark_histories`. Each history becomes a topic of one run, which is compared once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ackproof_spark.anomaly import OF_CLIENTS, OF_LOG, OF_REPLICAS, Anomaly
from golden.oracle import anomalies
from golden.random_runs import CASES, HISTORIES, SEED, random_histories
from spark_histories import History, anomalies_of, parse, show, write_run

pytestmark = pytest.mark.spark

TOPICS = {name: f"t{index}" for index, name in enumerate(CASES)}

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def drawn() -> dict[str, History]:
    return {f"random-{index}": history for index, history in enumerate(random_histories())}


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory, drawn) -> Rows:
    """The anomalies of each topic, one for each history, in a run that was compared once."""
    from ackproof_spark.checks.comparison import compare

    run_dir = tmp_path_factory.mktemp("golden")
    write_run(run_dir, {TOPICS[name]: parse(case) for name, case in CASES.items()} | drawn)
    counts = compare(spark, run_dir).counts
    by_topic: Rows = {topic: [] for topic in [*TOPICS.values(), *drawn]}
    for row in anomalies_of(run_dir):
        by_topic[row["topic"]].append(row)
    stored = Counter(row["anomaly"] for rows in by_topic.values() for row in rows)
    assert {kind: count for kind, count in counts.items() if count} == stored
    return by_topic


@pytest.mark.parametrize("name", CASES)
def test_history_has_its_known_anomalies(name, compared):
    topic = TOPICS[name]
    expected = [line.format(topic=topic) for line in CASES[name]["expected"]]
    assert [show(row) for row in compared[topic]] == sorted(expected)


@pytest.mark.parametrize("anomaly", OF_LOG)
def test_each_anomaly_has_a_history_with_and_one_without_it(anomaly):
    having = [
        any(line.startswith(anomaly.value) for line in case["expected"]) for case in CASES.values()
    ]
    assert any(having)
    assert not all(having)


def test_spark_and_the_oracle_agree_on_random_histories(compared, drawn):
    for topic, history in drawn.items():
        found = sorted(show(row, found=False) for row in compared[topic])
        assert found == anomalies(history), f"seed {SEED}: {history}"
    # The histories are useful only if each anomaly occurs often.
    seen = Counter(row["anomaly"] for topic in drawn for row in compared[topic])
    others = {*OF_REPLICAS, *OF_CLIENTS} - {Anomaly.ABORTED_READ}
    assert min(seen[kind] for kind in Anomaly if kind not in others) > HISTORIES / 10, seen


@pytest.mark.parametrize("name", CASES)
def test_oracle_agrees_with_the_hand_made_histories(name):
    expected = [line.partition(": ")[0] for line in CASES[name]["expected"]]
    assert anomalies(parse(CASES[name])) == sorted(expected)
