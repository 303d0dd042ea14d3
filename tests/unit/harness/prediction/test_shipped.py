"""Every scenario that ackproof ships gets answers, each with a reason of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ackproof.prediction import cache
from ackproof.prediction.predict import predict
from ackproof.scenario.loader import Configured, load_all
from ackproof_model import Configuration, Injection, Prediction
from ackproof_model import predict as search

ROOT = Path(__file__).parents[4]
ARMS = load_all(ROOT / "scenarios")


@pytest.fixture(autouse=True)
def nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer the exact search as if there were no faults: that takes milliseconds."""

    def answer(
        configuration: Configuration, schedule: Sequence[Injection], *, max_states: int = 0
    ) -> Prediction:
        return search(configuration, [])

    monkeypatch.setattr(cache, "predict", answer)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: f"{arm.path.stem} {arm.name}")
def test_no_shipped_scenario_is_answered_by_everything_is_possible(arm: Configured) -> None:
    record = predict(arm.scenario)
    assert "impossible" in record.predicted.values(), record.prediction.bounds
    assert all(record.prediction.reasons[anomaly] for anomaly in record.predicted)
