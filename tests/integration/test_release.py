"""The wheel, installed by pip into a clean environment and used outside any checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
