"""`ackproof bench model`: output and refused options."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ackproof.cli.main import app

SMALL = ["bench", "model", "--records", "1", "--kills", "2", "--workers", "1"]


def test_the_output_has_states_per_second_and_bytes_per_state() -> None:
    printed = CliRunner().invoke(app, [*SMALL, "--json"])
    assert printed.exit_code == 0
    found = json.loads(printed.output)
    assert found["impossible"]
    assert found["states"] > 10
    assert found["states_per_s"] == pytest.approx(found["states"] / found["seconds"])
    assert found["bytes_per_state"] > 0
    assert "states/s:" in CliRunner().invoke(app, SMALL).output


@pytest.mark.parametrize("wrong", [["--kafka", "four"], ["--kills", "7", "--in-all", "9"]])
def test_invalid_options_exit_with_2(wrong: list[str]) -> None:
    assert CliRunner().invoke(app, [*SMALL, *wrong]).exit_code == 2
