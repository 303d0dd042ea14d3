"""An attached cluster that is not Apache Kafka: franz-go's kfake, which `kfake/` builds."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from integration import command

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SOURCES = Path(__file__).parent / "kfake"
TOPIC = "mine-orders"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server, compiled."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("Go is not installed, which compiles kfake")
    built = tmp_path_factory.mktemp("kfake") / "kfake"
    subprocess.run([go, "build", "-o", built, "."], cwd=SOURCES, check=True, timeout=1200)
    return built


@contextmanager
def serving(program: Path, *arguments: str) -> Iterator[str]:
    """Run the server; yield its bootstrap servers."""
    with subprocess.Popen(
        [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()  # which ends it


def run(bootstrap: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Return exit code and verdict of a run on this cluster."""
    scenario = {
        "version": 1,
        "name": "other-make",
        "cluster": {"attach": {"bootstrap": bootstrap, "topic_prefix": "mine-"}},
        "topics": {TOPIC: {"partitions": 3}},
        "workload": {
            "topic": TOPIC,
            "rate": "500/s",
            "tail": 500,
            "settings": {"acks": "all", "enable.idempotence": True},
        },
        "faults": [{"fault": "none", "when": "200 acked", "heal_after": "1s"}],
    }
    YAML().dump(scenario, folder / "s.yaml")
    done = command.ackproof("run", folder / "s.yaml", "--out", folder / "runs", "--json")
    return done.returncode, command.printed(done)


def test_what_it_keeps_is_found_and_nothing_is_predicted(program: Path, tmp_path: Path) -> None:
    with serving(program) as bootstrap:
        code, verdict = run(bootstrap, tmp_path)
    assert (code, verdict["verdict"]) == (0, "holds"), verdict["reason"]
    assert verdict["observed"]["acked"] > 700
    assert verdict["observed"]["lost"] == verdict["observed"]["unseen"] == 0
    assert set(verdict["predicted"].values()) == {"not modelled"}
    assert verdict["findings"] == []
    assert verdict["kafka_version"] == "not Apache Kafka"
    # Spark's connector fails there (a NullPointerException in DescribeTopicPartitions).
    [alone] = [one for one in verdict["unobserved"] if "second reading" in one]
    assert "ackproof-kafka read alone: Spark's Kafka connector failed" in alone


def test_a_server_that_acks_and_stores_nothing_never_holds(program: Path, tmp_path: Path) -> None:
    with serving(program, "forgetful") as bootstrap:
        code, verdict = run(bootstrap, tmp_path)
    assert (code, verdict["verdict"]) == (3, "inconclusive")
    assert verdict["observed"]["unseen"] == verdict["observed"]["acked"] > 700
    assert set(verdict["predicted"].values()) == {"not modelled"}
