"""A user's own build of Kafka: from a distribution, from an image, and what is no Kafka."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.machine import cache_dir
from integration import command

pytestmark = pytest.mark.cluster

SCENARIO = """
version: 1
name: own
cluster: {{{own}, settings: {{{settings}}}}}
topics: {{orders: {{replication_factor: 3}}}}
workload:
  topic: orders
  records: 500
  settings: {{acks: all, enable.idempotence: true}}
faults: [{{fault: none, target: 1, heal_after: 1s}}]
"""


def scenario(folder: Path, own: str, settings: str = "") -> Path:
    path = folder / "own.yaml"
    path.write_text(SCENARIO.format(own=own, settings=settings))
    return path


@pytest.mark.slow
def test_an_image_that_is_no_kafka_is_refused(engine: DockerClient, tmp_path: Path) -> None:
    path = scenario(tmp_path, "image: 'ackproof/base:1'")
    done = command.ackproof("run", path, "--out", tmp_path / "runs")
    assert done.returncode == 4, done.stderr
    assert "'ackproof/base:1' is no Kafka" in done.stderr


@pytest.mark.slow
def test_a_distribution_runs_and_its_settings_are_proved(
    engine: DockerClient, image: str, tmp_path: Path
) -> None:
    """A setting that this build does not know ends the run as inconclusive, with its name."""
    build = tmp_path / "kafka_2.13-patched"
    shutil.copytree(cache_dir() / "jars" / DEFAULT_KAFKA, build / "libs")
    (build / "libs" / "patch.jar").write_bytes(
        next((build / "libs").glob("slf4j-api-*.jar")).read_bytes()
    )
    own = f"distribution: '{build}'"
    path = scenario(tmp_path, own, "no.such.setting: 1, num.io.threads: 4")
    done = command.ackproof("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 3, done.stderr
    verdict = command.printed(done)
    assert "broker 1 does not know the setting no.such.setting" in verdict["reason"]
    assert "num.io.threads" not in verdict["reason"]
    assert verdict["image"].startswith("ackproof/kafka:own-")

    path = scenario(tmp_path, own, "num.io.threads: 4")
    done = command.ackproof("run", path, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    engine.images.remove(verdict["image"].partition(" ")[0], force=True)
