"""Commands that need no Spark start where Spark and the libraries of analysis are missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.errors import ExitCode
from command_line import ackproof

SCENARIOS = Path(__file__).parents[4] / "scenarios"

#: Runs each command in one process where these modules cannot be imported; prints their exit codes.
PROGRAM = """
import json, sys
for name in ("pyspark", "pandas", "plotly", "scipy"):
    sys.modules[name] = None
from command_line import ackproof
codes = [ackproof(*command) for command in json.loads(sys.argv[1])]
print(json.dumps(codes), file=sys.stderr)
"""


def exit_codes(commands: list[list[str]], folder: Path) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
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
    found: list[int] = json.loads(done.stderr.splitlines()[-1])
    return found


def test_commands_without_spark(tmp_path: Path) -> None:
    scenario = str(SCENARIOS / "acks-all.yaml")
    (tmp_path / "server.properties").write_text("default.replication.factor=3\n")
    (tmp_path / "producer.properties").write_text("acks=all\n")
    own = ["--server", "server.properties", "--producer", "producer.properties"]
    commands = [
        ["--help"],
        ["init", "mine.yaml", *own],
        ["init", "plain.yaml"],
        ["predict", scenario],
        ["predict", scenario, *own],
        ["validate", scenario],
        ["faults"],
        ["runs"],
        ["scenarios"],
        ["scenarios", "show", "acks"],
        ["scenarios", "copy", "acks", "acks.yaml"],
        ["schedule", scenario],
        ["schema"],
        ["plan", scenario, "--kills", "0", "--max-states", "1000"],
    ]
    codes = dict(zip(map(" ".join, commands), exit_codes(commands, tmp_path), strict=True))
    assert codes.pop(" ".join(commands[-1])) in (ExitCode.HOLDS, ExitCode.INCONCLUSIVE)
    assert {name for name, code in codes.items() if code} == set()


def test_doctor_says_what_is_missing_and_a_command_that_needs_spark_ends(tmp_path: Path) -> None:
    assert exit_codes([["doctor"], ["warehouse", "info", "."]], tmp_path) == [4, 4]


def test_doctor_names_a_missing_pyspark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert ackproof("doctor", "--json") == ExitCode.ENVIRONMENT
    checks = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert checks["PySpark"]["state"] == "missing"
    assert "not installed" in checks["PySpark"]["found"]
    assert checks["Container engine"]["state"] == "missing"
