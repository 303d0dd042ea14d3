"""Whatever goes wrong: one clear message, the right exit code, nothing left, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from docker import DockerClient

from ackproof.errors import ClusterError
from ackproof.waiting import wait_for
from integration.command import (
    ackproof,
    await_acks,
    ours,
    printed,
    started,
)

pytestmark = pytest.mark.cluster

SCENARIO = "scenarios/acks-all.yaml"


def test_ctrl_c_removes_the_cluster_and_keeps_what_was_recorded(
    engine: DockerClient, tmp_path: Path
) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        run_dir = await_acks(tmp_path, process, at_least=500)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())
    result = ackproof("check", run_dir, "--json")
    verdict = printed(result)
    assert (result.returncode, verdict["verdict"]) == (3, "inconclusive")
    assert "interrupted" in verdict["reason"]
    assert verdict["observed"]["acked"] >= 500
    assert verdict["observed"]["lost"] == 0
    assert verdict["observed"]["unseen"] == verdict["observed"]["acked"]


def test_ctrl_c_while_brokers_boot_leaves_nothing(engine: DockerClient, tmp_path: Path) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        wait_for(
            lambda: ours(engine, process.pid)["containers"],
            bool,
            within_s=120,
            failure=lambda _: ClusterError("no container appeared"),
        )
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())


def test_after_a_sigkill_producers_end_clean_removes_and_check_recovers(
    engine: DockerClient, tmp_path: Path
) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        run_dir = await_acks(tmp_path, process, at_least=500)
        producers = [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if "ackproof.clients.producer" in " ".join(child.cmdline())
        ]
        assert len(producers) == 2
        process.kill()
        process.communicate()
    # Looked at first: another session's `ackproof clean` would take them, too.
    assert ours(engine, process.pid)["containers"]
    _, alive = psutil.wait_procs(producers, timeout=120)
    assert alive == []
    assert ackproof("clean").returncode == 0
    assert not any(ours(engine, process.pid).values())
    result = ackproof("check", run_dir, "--json")
    verdict = printed(result)
    assert (result.returncode, verdict["verdict"]) == (3, "inconclusive")
    assert "killed" in verdict["reason"]
    assert verdict["observed"]["acked"] >= 500
    assert verdict["observed"]["lost"] == 0


def test_a_run_that_goes_on_is_not_checked_and_not_cleaned(
    engine: DockerClient, tmp_path: Path
) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        run_dir = await_acks(tmp_path, process, at_least=1)
        process.send_signal(signal.SIGSTOP)  # else it could be over before they have looked
        refused = ackproof("check", run_dir)
        ackproof("clean")
        containers = ours(engine, process.pid)["containers"]
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=180)
    assert refused.returncode == 2
    assert "still in progress" in refused.stderr
    assert len(containers) >= 4  # the nodes, and a sidecar that is just at work


def assert_refused(result: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert result.returncode == code, result.stderr
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_no_engine() -> None:
    result = ackproof("run", SCENARIO, DOCKER_HOST="unix:///nonexistent.sock")
    assert_refused(result, 4, "no container engine answers")


def test_no_java(tmp_path: Path) -> None:
    result = ackproof("run", SCENARIO, "--out", tmp_path, PATH="/nonexistent", JAVA_HOME="")
    assert_refused(result, 4, "Java")
    assert list(tmp_path.iterdir()) == []  # refused before anything was started


def test_a_version_that_no_one_has(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(Path(SCENARIO).read_text().replace("4.3.1", "9.9.9"))
    result = ackproof("run", scenario, "--out", tmp_path / "runs")
    assert_refused(result, 4, "9.9.9")


def test_a_broker_that_dies_at_boot(engine: DockerClient, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    text = Path(SCENARIO).read_text()
    scenario.write_text(text + "\ncluster: {settings: {log.segment.bytes: nonsense}}\n")
    with started("run", scenario, "--out", tmp_path / "runs") as process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 4
    assert "nonsense" in errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    assert_refused(ackproof("run", SCENARIO, "--out", tmp_path / "runs"), 4, "cannot be written")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a full disk needs the right to mount a small tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_under_the_run_directory(engine: DockerClient, small_disk: Path) -> None:
    with started("run", SCENARIO, "--out", small_disk) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode in (3, 4)
    assert "full" in errors or "space" in errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())
