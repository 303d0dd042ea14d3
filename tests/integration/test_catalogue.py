"""Shipped scenarios do on real brokers what their arms expect. `ci/catalogue` runs all cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.scenario.loader import load
from ackproof.scenario.shipped import find, folder
from integration.command import ackproof, printed

pytestmark = pytest.mark.cluster

ARMS = [
    (path.relative_to(folder()).as_posix(), arm.name)
    for name in ("recommended", "tables")
    for path in sorted((folder() / name).glob("*.yaml"))
    for arm in load(path)
]


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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_an_arm_does_what_it_says(name: str, arm: str, tmp_path: Path) -> None:
    selection = ("--arm", arm) if arm else ()
    result = ackproof("run", find(name), *selection, "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
