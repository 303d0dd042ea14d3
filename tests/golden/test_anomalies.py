"""Histories with known verdicts, and random ones, in Spark and in the oracle in plain Python.

The hand-made ones, positive and negative, are `*.json` in this folder, in the notation of
`spark_histories`. Each history becomes a topic of one run, which is compared once.
"""

from __future__ import annotations

import pytest

from ackproof_spark.anomaly import OF_CLIENTS, OF_LOG, OF_REPLICAS, Anomaly
from golden.oracle import anomalies
from golden.random_runs import CASES, HISTORIES, SEED, random_histories
from spark_histories import anomalies_of, parse, show, write_run

pytestmark = pytest.mark.spark

TOPICS = {name: f"t{index}" for index, name in enumerate(CASES)}


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory) -> dict[str, list[str]]:
    from ackproof_spark.checks.comparison import compare

    run_dir = tmp_path_factory.mktemp("golden")
    write_run(run_dir, {TOPICS[name]: parse(case) for name, case in CASES.items()})
    compare(spark, run_dir)
    by_topic: dict[str, list[str]] = {topic: [] for topic in TOPICS.values()}
    for row in anomalies_of(run_dir):
        by_topic[row["topic"]].append(show(row))
    return by_topic


@pytest.mark.parametrize("name", CASES)
def test_history_has_its_known_anomalies(name, found):
    topic = TOPICS[name]
    expected = [line.format(topic=topic) for line in CASES[name]["expected"]]
    assert found[topic] == sorted(expected)


@pytest.mark.parametrize("anomaly", OF_LOG)
def test_each_anomaly_has_a_history_with_and_one_without_it(anomaly):
    having = [
        any(line.startswith(anomaly.value) for line in case["expected"]) for case in CASES.values()
    ]
    assert any(having)
    assert not all(having)


def test_spark_and_the_oracle_agree_on_random_histories(spark, tmp_path):
    from ackproof_spark.checks.comparison import compare

    histories = {f"t{index}": history for index, history in enumerate(random_histories())}
    write_run(tmp_path, histories)
    result = compare(spark, tmp_path)
    found: dict[str, list[str]] = {topic: [] for topic in histories}
    for row in anomalies_of(tmp_path):
        found[row["topic"]].append(show(row, found=False))
    for topic, history in histories.items():
        assert sorted(found[topic]) == anomalies(history), f"seed {SEED}: {history}"
    # The histories are useful only if each anomaly occurs often.
    others = {*OF_REPLICAS, *OF_CLIENTS} - {Anomaly.ABORTED_READ}
    seen = {kind: count for kind, count in result.counts.items() if kind not in others}
    assert min(seen.values()) > HISTORIES / 10, seen


@pytest.mark.parametrize("name", CASES)
def test_oracle_agrees_with_the_hand_made_histories(name):
    expected = [line.partition(": ")[0] for line in CASES[name]["expected"]]
    assert anomalies(parse(CASES[name])) == sorted(expected)
