"""`ackproof audit --prove` on real brokers: a loss that happens, and its survived twin."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient

from integration import command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FILES = {
    "topic.properties": "replication.factor=3\nmin.insync.replicas=2\n",
    "producer.properties": "acks=1\nenable.idempotence=false\n",
}


def written(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_leader_that_dies_loses_with_acks_1(engine: DockerClient, tmp_path: Path) -> None:
    """B2 on brokers: the audit names the records that were lost here."""
    files = written(tmp_path / "files")
    asked = ("audit", files, "--kafka", "4.4.0", "--out", tmp_path / "out", "--json")
    answer = command.printed(command.ackproof(*asked, "--prove", "B2"))
    (here,) = [risk["here"] for one in answer["answers"] for risk in one["risks"] if risk["here"]]
    assert 0 < here["lost"] < here["acked"]


def test_schedule_of_the_loss_keeps_everything_with_acks_all(
    engine: DockerClient, tmp_path: Path
) -> None:
    files, out = written(tmp_path / "files"), tmp_path / "out"
    command.ackproof("audit", files, "--kafka", "4.4.0", "--out", out, "--scenario", "B2")
    (path,) = out.glob("*.yaml")
    loses = path.read_text()
    path.write_text(loses.replace("acks: '1'", "acks: all").replace("loss: some", "loss: none"))
    assert path.read_text() != loses
    done = command.ackproof("run", path, "--out", tmp_path / "runs", "--json")
    verdict = command.printed(done)
    assert (done.returncode, verdict["observed"].get("lost", 0)) == (0, 0), verdict["reason"]
    assert verdict["observed"]["acked"] > 0
