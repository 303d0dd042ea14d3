from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof import doctor
from support.fake_engine import FakeEngine


@pytest.fixture
def host(tmp_path: Path) -> dict[str, doctor.Check]:
    return {check.what: check for check in doctor._host(tmp_path)}


def test_installed_requirements_are_ok(host: dict[str, doctor.Check]) -> None:
    assert host["PySpark"].state in ("ok", "limited")  # limited: another than those tried
    assert host["Java 17 or later"].state == "ok"


def test_an_old_java_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    checks = {check.what: check for check in doctor._host(tmp_path)}
    assert checks["Java 17 or later"].state == "missing"
    assert "1.8.0_292" in checks["Java 17 or later"].found


@pytest.mark.parametrize(("version", "state"), [("4.2.0", "ok"), ("4.1.2", "limited")])
def test_a_spark_that_was_not_tried_is_limited(
    version: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "spark_version", lambda: version)
    [check] = [check for check in doctor._host(tmp_path) if check.what == "PySpark"]
    assert (check.state, check.found) == (state, version)
    assert ("pyspark==4.1.1" in check.advice) == (state == "limited")


def of_engine(component: str, **info: Any) -> dict[str, doctor.Check]:
    """Return what doctor says of an engine with these answers."""
    engine: Any = FakeEngine(
        version={"Version": "4.3.1", "Components": [{"Name": component}]},
        info={"MemoryLimit": True, "CpuCfsQuota": True, "CgroupVersion": "2", **info},
    )
    return {check.what: check for check in doctor._engine(engine)}


def test_an_engine_of_root_has_no_limits() -> None:
    checks = of_engine("Podman Engine", SecurityOptions=["name=seccomp,profile=default"])
    assert checks["Container engine"].found == "Podman Engine 4.3.1"
    assert {check.state for check in checks.values()} == {"ok"}


def test_limits_of_a_rootless_engine_are_reported() -> None:
    checks = of_engine(
        "Engine", SecurityOptions=["name=rootless"], CpuCfsQuota=False, CgroupVersion="1"
    )
    assert checks["Container engine"].found == "4.3.1, rootless"
    assert checks["Limits of memory and CPU"].found == "the engine cannot limit CPU time"
    assert checks["pause (the freezer)"].state == "limited"


@pytest.mark.parametrize(
    ("reach", "contained", "states", "says"),
    [
        (("", True), True, ["ok", "ok"], ""),
        (("?", True), False, ["missing", "ok"], "plugin-dnsname"),
        (("", False), True, ["ok", "missing"], "--network host"),
        (("", False), False, ["ok", "limited"], "cluster.proxied"),
    ],
)
def test_networks(
    reach: tuple[str, bool],
    contained: bool,
    states: list[str],
    says: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_reach", lambda *_: reach)
    monkeypatch.setattr(doctor, "_contained", lambda: contained)
    checks = list(doctor._networks(SimpleNamespace(), "image"))
    assert [check.state for check in checks] == states
    assert says in "".join(check.advice for check in checks)
