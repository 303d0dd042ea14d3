"""The daemon of the container engine is killed under a run, and started again.

It is an engine of the test's own (`PrivateEngine`). It knows nothing of networks that the machine's
engine begins at the same time, so `ci/medicine` calls this last, and by itself.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.containers import images
from integration.command import ours
from integration.medicine import Patient, judged
from integration.private_engine import PrivateEngine

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.system() != "Linux" or os.geteuid() != 0 or shutil.which("dockerd") is None,
        reason="starts a container engine: dockerd, and root on Linux",
    ),
]


@pytest.mark.parametrize("moment", ["boot", "work", "comparison"])
def test_the_death_of_the_engines_daemon_loses_nothing_and_leaves_nothing(
    moment: str, spark: object, engine: DockerClient, tmp_path: Path
) -> None:
    for name in ("killed", "next"):
        (tmp_path / name).mkdir()
    with PrivateEngine() as private:
        used = (images.ensure(client=engine).reference, images.ensure_sidecar(client=engine))
        private.load(used, engine)
        client = private.client()
        with Patient(tmp_path / "killed", 1, DOCKER_HOST=private.address) as patient:
            moments = {
                "boot": lambda: bool(ours(client, patient.process.pid)["containers"]),
                "work": lambda: patient.acked > 1000,
                "comparison": lambda: patient.sealed,
            }
            patient.await_event(moment, moments[moment])
            private.kill()
            code = patient.await_end()
            told = ", ".join(map(judged, patient.run_dirs)) or "no run directory"
            private.start()
            patient.clean()
            left = patient.left(client)
        print(  # noqa: T201  ci/medicine shows it
            f"\nthe engine killed at {moment}: exit {code}, {patient.acked} acked; check: {told}; "
            f"after clean {left}"
        )
        assert left == []
        assert code in ({0, 3, 4} if moment == "comparison" else {3, 4}), patient.said
        assert "Traceback" not in patient.said, patient.said
        with Patient(tmp_path / "next", 2, DOCKER_HOST=private.address) as following:
            assert following.await_end() == 0, following.said
            assert following.left(client) == []
