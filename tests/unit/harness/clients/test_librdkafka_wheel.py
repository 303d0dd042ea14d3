"""Another librdkafka is installed whole or not at all; what cannot be had has one message."""

from __future__ import annotations

import os
import subprocess

import pytest

from ackproof.clients import librdkafka_wheel
from ackproof.errors import WorkloadError

NOT_FOUND = (
    "ERROR: Could not find a version that satisfies the requirement confluent-kafka==9.9.9 "
    "(from versions: {})\nERROR: No matching distribution found for confluent-kafka==9.9.9\n"
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    librdkafka_wheel.folder.cache_clear()
    return tmp_path / "ackproof" / "librdkafka"


@pytest.fixture
def pip(monkeypatch):
    """Programs that do what a test says: pip's exit code and errors, the version of the wheel."""
    answers = {"code": 0, "errors": "", "found": "2.3.0"}

    def run(command, **options):
        if "pip" not in command:
            return subprocess.CompletedProcess(command, 0, f"{answers['found']}\n", "")
        os.makedirs(command[command.index("--target") + 1])  # also if it fails later
        return subprocess.CompletedProcess(command, answers["code"], "", answers["errors"])

    monkeypatch.setattr(librdkafka_wheel.subprocess, "run", run)
    return answers


def test_a_version_is_before_the_installed_packages(cache, pip, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/own")
    [first, second] = librdkafka_wheel.environment("2.3.0")["PYTHONPATH"].split(os.pathsep)
    assert (first, second) == (str(librdkafka_wheel.folder("2.3.0")), "/own")
    assert librdkafka_wheel.environment(None)["PYTHONPATH"] == "/own"


def test_what_is_in_the_cache_needs_no_pip(cache, pip, monkeypatch):
    folder = librdkafka_wheel.folder("2.3.0")
    librdkafka_wheel.folder.cache_clear()
    monkeypatch.setattr(librdkafka_wheel.subprocess, "run", pytest.fail)
    assert librdkafka_wheel.folder("2.3.0") == folder


@pytest.mark.parametrize(
    ("errors", "problem"),
    [
        (NOT_FOUND.format("2.0.2, 2.1.0rc1, 2.3.0"), r"no wheel for Python .*: 2\.0\.2, 2\.3\.0\)"),
        (NOT_FOUND.format("none"), "pip finds no wheel of confluent-kafka"),
        ("WARNING: x\nERROR: No space left on device\n", "installed: No space left on device"),
    ],
)
def test_what_pip_cannot_install_leaves_nothing(cache, pip, errors, problem):
    pip |= {"code": 1, "errors": errors}
    with pytest.raises(WorkloadError, match=problem) as refused:
        librdkafka_wheel.folder("9.9.9")
    assert "9.9.9" in refused.value.message
    assert list(cache.iterdir()) == []


def test_a_wheel_with_another_librdkafka_is_refused(cache, pip):
    pip["found"] = "2.16.0"
    with pytest.raises(WorkloadError, match=r"2\.16\.1 has librdkafka 2\.16\.0") as refused:
        librdkafka_wheel.folder("2.16.1")
    assert "{librdkafka: 2.16.0}" in refused.value.hint
    assert list(cache.iterdir()) == []


def test_a_python_without_pip_is_told_to_install_it(cache, monkeypatch):
    monkeypatch.setattr(librdkafka_wheel.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(WorkloadError, match="has no pip") as refused:
        librdkafka_wheel.folder("2.3.0")
    assert "ensurepip" in refused.value.hint
