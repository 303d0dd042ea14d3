"""The configurations that a command selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.changes import from_assignments
from ackproof.scenario.loader import Configured
from ackproof.scenario.selection import select

B5 = Path(__file__).parents[4] / "scenarios/catalogue/b05-sole-replica-loses-power.yaml"


def selected(**selection: str) -> list[Configured]:
    """Select with a setting that is illegal for the configuration on Kafka 0.10.2.2."""
    idempotent = from_assignments(["workload.settings.enable.idempotence=true"])
    return select(
        B5, note=lambda _: None, warn=lambda _: None, overriding=lambda _: idempotent, **selection
    )


def test_a_configuration_that_is_not_selected_need_not_be_legal() -> None:
    with pytest.raises(ScenarioError, match=r"kafka is 0\.10\.2\.2"):
        selected()
    assert [one.name for one in selected(kafka="2.6.2")] == ["min.insync.replicas=1 on 2.6.2"]
    assert [one.scenario.kafka for one in selected(arm="min.insync.replicas=2")] == ["4.4.0"]
    with pytest.raises(ScenarioError, match=r"no configuration is x and 2\.6\.2"):
        selected(arm="x", kafka="2.6.2")
