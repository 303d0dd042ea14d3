"""Predictions for groups whose offsets an administrator resets or deletes."""

from __future__ import annotations

from collections.abc import Iterable

from ackproof.scenario.model import Scenario
from ackproof_model import Likelihood
from ackproof_spark.anomaly import Anomaly

_Answers = dict[Anomaly, tuple[Likelihood, str]]


def by_resets(
    scenario: Scenario, group: str, *, begins: str, skipped: Iterable[Anomaly]
) -> _Answers:
    """Return what resets of a group's offsets may cause; empty if there are none.

    begins: where the group begins without offsets. skipped: the anomalies of a record that a reset
    passes over.
    """
    answers: _Answers = {}
    for effect, fault in scenario.resets(group):
        if effect.goes_back(reset=begins):
            reason = f"after {fault} it gets records again that it has processed"
            answers[Anomaly.REPLAYED] = Likelihood.POSSIBLE, reason
        if effect.skips(reset=begins):
            reason = f"{fault} passes over the records that it has not processed yet"
            answers |= dict.fromkeys(skipped, (Likelihood.POSSIBLE, reason))
        answers.setdefault(
            Anomaly.REPLAYED,
            (Likelihood.IMPOSSIBLE, "its offsets are only moved to the end of the log"),
        )
    return answers
