"""Hand-made histories with known verdicts, positive and negative: `*.json` in this folder.

The notation is `spark_histories`'s. Every history becomes a topic of one run, which is compared
once.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackproof_spark.anomaly import OF_CLIENTS
from ackproof_spark.checks.comparison import CHECKS
from spark_histories import (
    anomalies_of,
    parse,
    show,
    write_run,
)

pytestmark = pytest.mark.spark

CASES = {
    f"{file.stem}: {name}": case
    for file in sorted(Path(__file__).parent.glob("*.json"))
    for name, case in json.loads(file.read_text(encoding="utf-8")).items()
}
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


@pytest.mark.parametrize("anomaly", [kind for kind in CHECKS if kind not in OF_CLIENTS])
def test_each_anomaly_has_a_history_with_and_one_without_it(anomaly):
    having = [
        any(line.startswith(anomaly.value) for line in case["expected"]) for case in CASES.values()
    ]
    assert any(having)
    assert not all(having)
