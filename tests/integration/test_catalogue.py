"""A case of the catalogue does on real brokers what its arm expects. `ci/catalogue` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.command import ackproof, printed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_an_arm_of_the_catalogue_loses_records_for_the_reason_that_it_names(
    tmp_path: Path,
) -> None:
    arm = "killed on 4.3.1"
    result = ackproof("run", "B7", "--arm", arm, "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    verdict = printed(result)
    assert verdict["observed"]["lost"] > 0
    assert {"what": "cause", "wanted": "B7", "observed": "B7", "met": True} in verdict[
        "expectations"
    ]
