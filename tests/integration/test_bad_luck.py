"""Errors of the environment: one clear message, exit code, cleanup, recorded data is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from docker import DockerClient

from command_line import captured
from integration.command import (
    ackproof,
    await_acks,
    ours,
    printed,
    started,
)
from waiting import until

pytestmark = pytest.mark.cluster

SCENARIO = "scenarios/acks-all.yaml"


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_in_progress_is_left_alone_and_ctrl_c_keeps_what_it_recorded(
    engine: DockerClient, tmp_path: Path
) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        run_dir = await_acks(tmp_path, process, at_least=500)
        process.send_signal(signal.SIGSTOP)  # else it could be over before they have looked
        refused = captured("check", run_dir)
        captured("clean")
        containers = ours(engine, process.pid)["containers"]
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
    assert refused.returncode == 2
    assert "still in progress" in refused.stderr
    assert len(containers) >= 4  # the nodes, and a sidecar that is just at work
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())
    result = captured("check", run_dir, "--json")
    verdict = printed(result)
    assert (result.returncode, verdict["verdict"]) == (3, "inconclusive")
    assert "interrupted" in verdict["reason"]
    assert verdict["observed"]["acked"] >= 500
    assert verdict["observed"]["lost"] == 0
    assert verdict["observed"]["unseen"] == verdict["observed"]["acked"]


@pytest.mark.slow
def test_ctrl_c_while_brokers_boot_leaves_nothing(engine: DockerClient, tmp_path: Path) -> None:
    with started("run", SCENARIO, "--out", tmp_path) as process:
        until(lambda: ours(engine, process.pid)["containers"], "no container appeared")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())


@pytest.mark.slow
def test_after_sigkill_producers_end_and_clean_and_check_work(
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
    # Checked first, because `ackproof clean` of another session removes them as well.
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


def assert_refused(result: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert result.returncode == code, result.stderr
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_missing_engine_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    result = captured("run", SCENARIO, "--out", tmp_path)
    assert_refused(result, 4, "no container engine answers")


def test_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("JAVA_HOME", "")
    result = captured("run", SCENARIO, "--out", tmp_path)
    assert_refused(result, 4, "Java")
    assert list(tmp_path.iterdir()) == []  # refused before anything was started


@pytest.mark.parametrize(
    # A registry is asked for 3.9.5.
    ("version", "code"),
    [("3.9.9", 2), pytest.param("3.9.5", 4, marks=pytest.mark.slow)],
)
def test_an_unknown_kafka_version_is_reported(tmp_path: Path, version: str, code: int) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(Path(SCENARIO).read_text() + f'kafka: "{version}"\n')
    result = captured("run", scenario, "--out", tmp_path / "runs")
    assert_refused(result, code, version)


@pytest.mark.slow
def test_a_broker_that_exits_at_boot_is_reported(engine: DockerClient, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    text = Path(SCENARIO).read_text()
    scenario.write_text(text + "\ncluster: {settings: {log.segment.bytes: nonsense}}\n")
    with started("run", scenario, "--out", tmp_path / "runs") as process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 4
    assert "nonsense" in errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    assert_refused(captured("run", SCENARIO, "--out", tmp_path / "runs"), 4, "cannot be written")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a full disk needs the right to mount a small tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_of_the_run_directory_is_reported(
    engine: DockerClient, small_disk: Path
) -> None:
    with started("run", SCENARIO, "--out", small_disk) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode in (3, 4)
    assert "full" in errors or "space" in errors
    assert "Traceback" not in errors
    assert not any(ours(engine, process.pid).values())
