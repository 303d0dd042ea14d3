"""The draws, the forecasts' comparison and the table of `ci/lab/advise-truth reassign`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import reassign_truth
from reassign_truth import scenario, table

from ackproof.scenario.loader import load


def test_draws_are_repeated_and_legal(tmp_path: Path) -> None:
    drawn = [scenario(seed) for seed in range(100, 109)]
    assert drawn == [scenario(seed) for seed in range(100, 109)]
    assert {one["kafka"] for one in drawn} == set(reassign_truth.VERSIONS)
    for seed, one in enumerate(drawn):
        path = tmp_path / f"{seed}.yaml"
        path.write_text(json.dumps(one))
        load(path)


def test_the_table_counts_moves_by_what_the_advice_says() -> None:
    moved: dict[str, Any] = {"harms": [], "right": True, "completed": True, "lost": 0}
    returns = {"harms": ["returns"], "right": True, "completed": True, "lost": 7}
    lines = table([moved, returns, {**moved, "right": False}]).splitlines()
    assert lines[2:] == ["| may be moved | 2 | 1 | 2 | 0 |", "| returns | 1 | 1 | 1 | 1 |"]
