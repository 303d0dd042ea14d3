"""The base scenario of tests of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario

ACKS = load(Path(__file__).parents[4] / "scenarios" / "acks.yaml")


def scenario(*faults: dict[str, Any], arm: int = 2, **changes: Any) -> Scenario:
    """Return an arm of `acks.yaml`, by default acks=all, with these faults and other changes."""
    given = ACKS[arm].scenario.model_dump(by_alias=True)
    return Scenario.model_validate({**given, "faults": list(faults), **changes})
