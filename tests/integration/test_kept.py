"""`run --keep`: the cluster stays up, says how it is reached, and answers for its configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.kafka_versions import DEFAULT_KAFKA
from integration.command import ackproof, ours, printed, started

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = """\
version: 1
name: kept
topics:
  orders: {partitions: 1, replication_factor: 3, settings: {min.insync.replicas: 4}}
workload:
  topic: orders
  records: 2000
  settings: {acks: all, enable.idempotence: true}
expect:
  loss: none
"""


def test_a_kept_cluster_can_be_reached_and_asked(engine: DockerClient, tmp_path: Path) -> None:
    scenario, metrics = tmp_path / "s.yaml", tmp_path / "run.prom"
    scenario.write_text(SCENARIO)
    process = started(
        *("run", scenario, "--out", tmp_path, "--keep", "--seed", "7", "--metrics", metrics),
        *("--set", "workload.records=1000", "--json"),
    )
    try:
        said, notes = process.communicate(timeout=500)
        assert process.returncode == 0, notes
        verdict = json.loads(said)
        assert verdict["seed"] == 7
        # From 3.7 on a minimum ISR above the replicas counts as the replicas (KAFKA-15583).
        assert f"4 is above the replication factor 3: Kafka {DEFAULT_KAFKA} takes it as 3" in notes
        assert 0 < verdict["observed"]["acked"] == verdict["observed"]["sent"] <= 1000
        name = "acks=all, min.insync.replicas=4 with records=1000"  # the warehouse's
        assert f'ackproof_sends{{configuration="{name}"' in metrics.read_text()
        [bootstrap] = re.findall(r"left up: bootstrap\.servers=([^,\s]+)", notes)
        asked = ackproof("predict", "--from-cluster", bootstrap, "--topic", "orders", "--json")
        assert "replication factor 3\n" in asked.stderr
        assert "topic: min.insync.replicas=4\n" in asked.stderr
        [prediction] = printed(asked)
        assert prediction["predicted"]["lost"] == "impossible"
        audit = printed(
            ackproof("audit", "--from-cluster", bootstrap, "--topic", "orders", "--json")
        )
        assert audit["kafka"]["mode"]["value"] == "kraft"
        (answer,) = audit["answers"]
        assert answer["settings"]["min.insync.replicas"]["value"] == "4"
        assert answer["settings"]["replication.factor"]["value"] == "3"
        assert "acks" in answer["unstated"]
        lost = [one for one in answer["risks"] if one["effect"] == "lost"]
        assert {one["when"].get("acks") for one in lost if len(one["failures"]) == 1} <= {"0", "1"}
        [name] = re.findall(r"end it: ackproof clean (\S+)", notes)
        cleaned = printed(ackproof("clean", "--json"))
        assert name in cleaned["left_up"]
        none = ackproof("predict", "--from-cluster", bootstrap, "--topic", "order")
        assert none.returncode == 2
        assert "it has orders" in none.stderr
        cleaned = printed(ackproof("clean", name, "--json"))
        assert cleaned["containers"] == 4
        assert name not in cleaned["left_up"]
        assert ackproof("clean", name).returncode == 2
    finally:
        remove(engine, process.pid)


def remove(engine: DockerClient, pid: int) -> None:
    """Remove what the process left up."""
    for container in ours(engine, pid)["containers"]:
        container.remove(force=True, v=True)
    for one in (*ours(engine, pid)["networks"], *ours(engine, pid)["volumes"]):
        one.remove()
