"""The daemon of the container engine is killed under a run, and started again by `ci/setup`.

It is the engine of the machine (a second daemon deletes the networks of the first), so
`ci/lab/engine-death` alone asks for this, and beside nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import DockerException

from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.runs.verdict import Word
from ackproof.waiting import wait_for
from integration.command import ours
from integration.medicine import Patient, judged

ROOT = Path(__file__).parents[2]
PID_FILE = Path("/var/run/docker.pid")

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        "ACKPROOF_KILL_ENGINE" not in os.environ, reason="kills the machine's container engine"
    ),
]


@pytest.fixture
def daemon(engine: DockerClient) -> int:
    """The process of the engine's daemon, if nobody else has a container there."""
    running = engine.containers.list()
    assert running == [], f"{len(running)} containers run: somebody uses this engine"
    return int(PID_FILE.read_text())


def answers(engine: DockerClient) -> bool:
    try:
        return bool(engine.ping())
    except (DockerException, OSError):
        return False


@pytest.mark.parametrize("moment", ["boot", "work", "comparison"])
def test_the_death_of_the_engines_daemon_loses_nothing_and_leaves_nothing(
    moment: str, daemon: int, spark: object, engine: DockerClient, tmp_path: Path
) -> None:
    for name in ("killed", "next"):
        (tmp_path / name).mkdir()
    with Patient(tmp_path / "killed", 1) as patient:
        moments = {
            "boot": lambda: bool(ours(engine, patient.process.pid)["containers"]),
            "work": lambda: patient.acked > 1000,
            "comparison": lambda: patient.sealed,
        }
        patient.await_event(moment, moments[moment])
        os.kill(daemon, signal.SIGKILL)
        wait_for(
            lambda: answers(engine),
            lambda answered: not answered,
            within_s=30,
            failure=lambda _: ClusterError(f"the daemon, process {daemon}, still answers"),
        )
        code = patient.await_end()
        acked = patient.acked
        subprocess.run([ROOT / "ci" / "setup"], check=True, capture_output=True)
        restarted = connect()
        before = len(patient.left(restarted, patience_s=0))
        told = ", ".join(map(judged, patient.run_dirs)) or "no run directory"
        patient.clean()
        left = patient.left(restarted)
    print(  # noqa: T201  ci/lab/engine-death shows it
        f"\nthe engine killed at {moment}: exit {code}, {acked} acked; check: {told}; "
        f"left {before}, after clean {left}"
    )
    assert left == []
    assert code in ({0, 3, 4} if moment == "comparison" else {3, 4}), patient.said
    if moment != "comparison":
        assert str(Word.HOLDS) not in told
    assert "Traceback" not in patient.said, patient.said
    assert "unexpected" not in patient.said, patient.said
    with Patient(tmp_path / "next", 2) as following:
        assert following.await_end() == 0, following.said
        assert following.left(restarted) == []
