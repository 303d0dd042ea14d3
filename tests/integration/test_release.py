"""The wheel, installed by pip into a clean environment and used outside any checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], cwd=ROOT, check=True)


@pytest.mark.slow
def test_a_wheel_without_extras_answers_what_needs_no_broker(tmp_path: Path) -> None:
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ".")
    [wheel] = tmp_path.glob("ackproof-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    constraints = (ROOT / "ci" / "constraints.txt").read_text(encoding="utf-8")
    pins = tmp_path / "pins.txt"
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^ ;]+", constraints, re.M)))
    pip("--python", programs / "python", "install", "--constraint", pins, wheel)

    def ackproof(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [programs / "ackproof", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "producer.properties").write_text("acks=all\nenable.idempotence=true\n")
    for line in (
        *("--version", "scenarios", "scenarios B6", "init mine.yaml --from acks"),
        *("faults", "faults kill", "validate mine.yaml --schedule"),
        *(
            "predict mine.yaml",
            "init --producer producer.properties",
            "predict scenario.yaml",
            "validate --json-schema scenario",
            "init monitoring --template grafana",
            "warehouse queries loss-rate",
        ),
    ):
        done = ackproof(*line.split())
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert 'pip install "WHEEL[run]"' in str(json.loads(ackproof("doctor", "--json").stdout))
    for line in ("run mine.yaml", "clean", "warehouse info ."):
        done = ackproof(*line.split())
        assert (done.returncode, done.stdout) == (4, ""), line
        [message] = done.stderr.splitlines()
        assert 'is not installed: pip install "WHEEL[run]", where' in message, line


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    "environment", [{}, {"LOWEST": "1", "WITHOUT_BROKERS": "1"}], ids=["locked", "lower bounds"]
)
def test_a_wheel_works_without_a_checkout(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [ROOT / "ci" / "release"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
