"""Commands that need no broker work without the packages of the extra `run`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ackproof.errors import ExitCode
from command_line import ackproof

ROOT = Path(__file__).parents[4]
SCENARIOS = ROOT / "scenarios"

#: Runs each command in one process where these modules cannot be imported; prints their exit codes.
PROGRAM = """
import json, sys
for name in sys.argv[2:]:
    sys.modules[name] = None
from command_line import ackproof
codes = [ackproof(*command) for command in json.loads(sys.argv[1])]
print(json.dumps(codes), file=sys.stderr)
"""


def of_extra_run() -> list[str]:
    """Return the names by which the packages of the extra `run` are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [
        re.split("[>=<]", line)[0] for line in project["optional-dependencies"]["beside-spark"]
    ]
    return [
        "pyspark",
        *({"protobuf": "google"}.get(name, name.replace("-", "_")) for name in names),
    ]


def exit_codes(commands: list[list[str]], folder: Path) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands), *of_extra_run()],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "DOCKER_HOST": "unix:///nowhere/docker.sock",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    exit_codes: list[int] = json.loads(done.stderr.splitlines()[-1])
    return exit_codes


def test_commands_without_the_extra_run(tmp_path: Path) -> None:
    scenario = str(SCENARIOS / "acks-all.yaml")
    (tmp_path / "server.properties").write_text("default.replication.factor=3\n")
    (tmp_path / "producer.properties").write_text("acks=all\n")
    own = ["--server", "server.properties", "--producer", "producer.properties"]
    files, passing = ["server.properties", "producer.properties"], ["--fail-on", "none"]
    commands = [
        ["--help"],
        ["audit", *files, "--sarif", "a.sarif", "--junit", "a.xml", "--markdown", "a.md", *passing],
        ["audit", *files, "--scenario", "B9", "--kafka", "4.3.1"],
        ["validate", "--json-schema", "audit"],
        ["init", "mine.yaml", *own],
        ["init", "plain.yaml"],
        ["predict", scenario],
        ["predict", scenario, *own],
        ["validate", scenario],
        ["faults"],
        ["scenarios"],
        ["scenarios", "acks"],
        ["init", "acks.yaml", "--from", "acks"],
        ["validate", scenario, "--schedule"],
        ["validate", "--json-schema", "scenario"],
        ["runs"],
        ["plan", scenario, "--kills", "0", "--max-states", "1000"],
    ]
    codes = dict(zip(map(" ".join, commands), exit_codes(commands, tmp_path), strict=True))
    assert codes.pop(" ".join(commands[-1])) in (ExitCode.HOLDS, ExitCode.INCONCLUSIVE)
    assert {name for name, code in codes.items() if code} == set()


def test_doctor_and_commands_that_need_the_extra_exit_with_4(tmp_path: Path) -> None:
    assert exit_codes([["doctor"], ["warehouse", "info", "."]], tmp_path) == [4] * 2


def test_doctor_names_a_missing_pyspark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(name: str) -> str:
        if name == "pyspark":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    version = importlib.metadata.version
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(importlib.metadata, "version", without)
    assert ackproof("doctor", "--json") == ExitCode.ENVIRONMENT
    checks = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert checks["PySpark"]["state"] == checks["Spark's Kafka connector"]["state"] == "missing"
    assert "pyspark is not installed" in checks["PySpark"]["found"]
    assert checks["Container engine"]["state"] == "missing"
