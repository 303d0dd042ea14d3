"""SIGKILL and cuts at bytes drawn by lot: the ledger keeps what was recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SEED = 20261121


@pytest.mark.parametrize("times", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_a_ledger_survives_kills_and_cuts_at_random_bytes(tmp_path, times):
    program = Path(__file__).with_name("kills.py")
    result = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(times), str(SEED)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert seen["kills"] == times
    # Two writes a batch of some 2 kB: there are no more than some 60 sizes to be killed at.
    assert seen["sizes"] > 20, "kills must come at many different places"
