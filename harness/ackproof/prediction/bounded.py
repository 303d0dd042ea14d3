"""The prediction for a schedule that cannot be searched exactly: what any order of it may do."""

from __future__ import annotations

from dataclasses import replace

from ackproof_model import Configuration, Prediction
from ackproof_model.bounds import Stress, bound


def predict_bounded(configuration: Configuration, stress: Stress, why: str) -> Prediction:
    """Return the prediction for one partition. `why`: what the exact search does not support."""
    found = bound(configuration, stress)
    return Prediction(
        likelihood=found.likelihood,
        trace=found.trace,
        diagram=None,
        at_risk=(),
        error_codes=(),
        reasons=found.reasons,
        bounds=f"Bounds, since the exact search does not support {why}: {found.bounds}",
        states=0,
        complete=True,
    )


def completed(searched: Prediction, configuration: Configuration, stress: Stress) -> Prediction:
    """Return a search that ended early, answered by the bounds."""
    found = bound(configuration, stress)
    return replace(
        searched,
        likelihood=found.likelihood,
        reasons=found.reasons,
        trace=searched.trace or found.trace,
        availability=(),
        bounds=f"{searched.bounds} Bounds exclude what they can: {found.bounds}",
    )
