"""A user's project uses the pytest plugin from a built wheel on real brokers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.command import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel of this checkout into a new folder."""
    wheels, target = (tmp_path_factory.mktemp(name) for name in ("wheels", "installed"))
    common = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run([*common, *build], check=True)
    [wheel] = wheels.glob("*.whl")
    subprocess.run([*common, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


def test_the_users_tests_pass_and_fail_as_expected(installed: Path, tmp_path: Path) -> None:
    project = tmp_path / "user_project"
    shutil.copytree(ROOT / "tests" / "user_project", project)
    (project / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-v", "--tb=short"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "1 failed" in said, said
    assert "6 passed" in said, said
    assert "aborted_read" not in said, "no transactions, no such wish"
    assert "PASSED orders.chaos.yaml::loss: none" in said
    assert "acked records are lost" in said
    assert "LOST orders-0, acked at offset" in said
    assert "Traceback" not in said
