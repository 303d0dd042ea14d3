from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from ackproof.containers import doctor


@pytest.fixture
def host(tmp_path: Path) -> dict[str, doctor.Check]:
    return {check.what: check for check in doctor._host(tmp_path)}


def test_what_is_installed_is_ok(host: dict[str, doctor.Check]) -> None:
    assert host["PySpark"].state == "ok"
    assert host["Java 17 or later"].state == "ok"


def test_without_pyspark_doctor_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name == "pyspark":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("importlib.metadata.version", without)
    checks = {check.what: check for check in doctor._host(tmp_path)}
    assert checks["PySpark"].state == "missing"
    assert checks["Spark's Kafka connector"].state == "missing"
    assert "pyspark is not installed" in checks["PySpark"].found


def test_an_old_java_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    checks = {check.what: check for check in doctor._host(tmp_path)}
    assert checks["Java 17 or later"].state == "missing"
    assert "1.8.0_292" in checks["Java 17 or later"].found
