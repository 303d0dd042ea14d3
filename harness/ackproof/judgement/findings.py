"""Compares the observed anomalies with the prediction, which gives findings."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.runs.verdict import Finding, Likelihood
from ackproof_spark.tables import OF_CLIENTS, PREDICTED


def contradictions(
    predicted: Mapping[str, Likelihood], observed: Mapping[str, int], *, conclusive: bool
) -> list[Finding]:
    """Return the anomalies whose count contradicts the prediction.

    An observed anomaly that is impossible is always a finding. The absence of a certain one is a
    finding only in a conclusive run: the prediction assumes that the whole schedule was executed.
    """
    findings = []
    for anomaly in map(str, (*PREDICTED, *OF_CLIENTS)):
        if anomaly not in predicted:  # not applicable, or unknown to the ackproof that predicted
            continue
        likelihood, count = predicted[anomaly], observed.get(anomaly, 0)
        if likelihood == "impossible" and count > 0:
            explanation = f"no path of the model leads to this, yet {count} were observed"
        elif likelihood == "certain" and count == 0 and conclusive:
            explanation = "every path of the model leads to this, yet none was observed"
        else:
            continue
        findings.append(
            Finding(anomaly=anomaly, predicted=likelihood, observed=count, explanation=explanation)
        )
    return findings
