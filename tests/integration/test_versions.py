"""A version with ZooKeeper goes the whole way, from `kafka: "2.6.2"` to a verdict.

`ci/lab/versions` runs the same scenario on Kafka of every era.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from ackproof_spark.tables import LOCATION
from integration.command import ackproof, printed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

VERSIONS = Path(__file__).parents[2] / "scenarios" / "versions.yaml"


def test_kafka_2_6_2_keeps_what_it_acked_when_its_leader_is_killed(tmp_path: Path) -> None:
    document = YAML(typ="safe").load(VERSIONS.read_text())
    del document["matrix"]
    document["kafka"] = "2.6.2"
    path = tmp_path / "scenario.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(document, file)
    result = ackproof("run", path, "--json", "--out", tmp_path / "runs")
    assert result.returncode == 0, result.stdout + result.stderr
    verdict = printed(result)
    assert verdict["kafka_version"] == "2.6.2"
    assert verdict["observed"]["lost"] == 0
    assert verdict["observed"]["acked"] > 3000
    assert verdict["predicted"]["lost"] == "impossible"
    (kill,) = verdict["faults"]
    assert kill["verified"]
    run_dir = tmp_path / "runs" / verdict["run_id"]
    states = pq.read_table(run_dir / LOCATION["partition_states"]).to_pylist()
    story = [state for state in states if state["partition"] == 0]
    assert [state["leader_epoch"] for state in story][:2] == [0, 1]
    assert story[0]["leader"] in kill["nodes"]
    assert story[1]["leader"] not in kill["nodes"]
    assert len(story[-1]["isr"]) == 3
