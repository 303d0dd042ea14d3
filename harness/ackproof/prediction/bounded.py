"""The prediction for a schedule that cannot be searched exactly: what any order of it may do."""

from __future__ import annotations

from dataclasses import replace

from ackproof_model import Configuration, Likelihood, Prediction
from ackproof_model.bounds import Stress, bound


def predict_bounded(configuration: Configuration, stress: Stress, why: str) -> Prediction:
    """Return the prediction for one partition. `why`: what the exact search does not support."""
    found = bound(configuration, stress)
    return Prediction(
        likelihood=found.likelihood,
        trace=found.trace,
        diagram=(),
        at_risk=(),
        error_codes=(),
        reasons=found.reasons,
        bounds=f"Bounds, since the exact search does not support {why}: {found.bounds}",
        states=0,
        complete=True,
    )


def completed(searched: Prediction, configuration: Configuration, stress: Stress) -> Prediction:
    """Return a search that ended early, with what the bounds exclude."""
    found = bound(configuration, stress)
    excluded = [
        anomaly
        for anomaly, likelihood in found.likelihood.items()
        if likelihood is Likelihood.IMPOSSIBLE
    ]
    return replace(
        searched,
        likelihood={**searched.likelihood, **dict.fromkeys(excluded, Likelihood.IMPOSSIBLE)},
        reasons={**searched.reasons, **{anomaly: found.reasons[anomaly] for anomaly in excluded}},
        bounds=f"{searched.bounds} Bounds exclude what they can: {found.bounds}",
    )
