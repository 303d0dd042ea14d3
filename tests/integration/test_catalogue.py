"""A case of the catalogue and its safe twin do on real brokers what their arms expect.

`ci/lab/catalogue` runs all cases. In `ci/test`, `test_demo.py` has a loss, its cause and its twin.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.kafka_versions import DEFAULT_KAFKA
from integration.command import ackproof, printed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_same_schedule_loses_records_in_one_arm_for_the_reason_it_names_and_none_in_its_twin(
    tmp_path: Path,
) -> None:
    result = ackproof("run", "B4", "--kafka", DEFAULT_KAFKA, "--json", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    losing, safe = printed(result)
    cause = {"what": "cause", "wanted": "B4", "observed": "B4", "met": True}
    assert losing["observed"]["lost"] > 0
    assert cause in losing["expectations"]
    assert (safe["verdict"], safe["observed"]["lost"]) == ("holds", 0)
