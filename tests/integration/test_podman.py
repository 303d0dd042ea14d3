"""The smoke scenario on another container engine: podman, by its socket."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import command
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.spark]

#: The second one lets containers of a network find each other by name.
_PACKAGES = "podman golang-github-containernetworking-plugin-dnsname"


def allowed(limit: int, most: int) -> str:
    """Return a limit that any process here may set: podman's own default needs CAP_SYS_RESOURCE."""
    hard = resource.getrlimit(limit)[1]
    value = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return f"{value}:{value}"


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[str]:
    """The address of podman's socket."""
    program = shutil.which("podman")
    if program is None:
        pytest.skip(f"podman is not installed (apt-get install {_PACKAGES})")
    if os.geteuid() != 0:
        pytest.skip("the broker image is built here by root only")
    settings = tmp_path / "containers.conf"
    files, processes = allowed(resource.RLIMIT_NOFILE, 16384), allowed(resource.RLIMIT_NPROC, 4096)
    limits = f'["nofile={files}", "nproc={processes}"]'
    settings.write_text(f"[containers]\ndefault_ulimits = {limits}\n")
    socket = tmp_path / "podman.sock"
    service = subprocess.Popen(
        [program, "system", "service", "--time=0", f"unix://{socket}"],
        env={**os.environ, "CONTAINERS_CONF": str(settings)},
    )
    try:
        until(socket.exists)
        yield f"unix://{socket}"
    finally:
        service.terminate()
        service.wait(60)


def test_podman_runs_the_smoke_scenario(podman: str, tmp_path: Path) -> None:
    done = command.ackproof(
        *("run", command.ROOT / "scenarios/smoke.yaml", "--out", tmp_path / "runs", "--json"),
        DOCKER_HOST=podman,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for verdict in command.printed(done):
        assert verdict["verdict"] == "holds", verdict["reason"]
        assert all(fault["verified"] for fault in verdict["faults"])
