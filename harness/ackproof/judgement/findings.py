"""Compares the observed anomalies with the prediction, which gives findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackproof.judgement.expectations import OF_UNFINISHED_WORK
from ackproof.runs.verdict import Finding, Likelihood, PartAvailability, Step
from ackproof_spark.anomaly import OF_CLIENTS, PREDICTED

#: Seconds that a step must last: the model assumes that everything that is due has happened.
SETTLED_S = 5.0


def contradictions(
    predicted: Mapping[str, Likelihood], observed: Mapping[str, int], *, conclusive: bool
) -> list[Finding]:
    """Return the anomalies whose count contradicts the prediction.

    An observed anomaly that is impossible is always a finding, but for `OF_UNFINISHED_WORK`. These,
    and the absence of a certain one, are findings only in a conclusive run: the prediction assumes
    that the whole schedule was executed.
    """
    findings = []
    for anomaly in map(str, (*PREDICTED, *OF_CLIENTS)):
        if anomaly not in predicted:  # not applicable, or unknown to the ackproof that predicted
            continue
        likelihood, count = predicted[anomaly], observed.get(anomaly, 0)
        definite = conclusive or anomaly not in OF_UNFINISHED_WORK
        if likelihood == "impossible" and count > 0 and definite:
            explanation = f"no path of the model leads to this, yet {count} were observed"
        elif likelihood == "certain" and count == 0 and conclusive:
            explanation = "every path of the model leads to this, yet none was observed"
        else:
            continue
        findings.append(
            Finding(anomaly=anomaly, predicted=likelihood, observed=count, explanation=explanation)
        )
    return findings


def of_availability(
    predicted: Sequence[PartAvailability],
    steps: Sequence[Step],
    *,
    settling_s: float,
    conclusive: bool,
) -> list[Finding]:
    """Return where the probe contradicts what the model says of a part of the schedule.

    What could be done although it cannot be is always a finding. What could not be done is one in
    a conclusive run only. The model speaks of the time after the brokers' timers, which take
    `settling_s`: steps that end less than `SETTLED_S` later are not compared.
    """
    findings: list[Finding] = []
    likelihood: Likelihood
    for step in steps:
        parts = [one for one in predicted if (one.begun, one.healed) == (step.begun, step.healed)]
        if not parts or (step.end - step.begin).total_seconds() < settling_s + SETTLED_S:
            continue
        for state in step.partitions:
            for ability in ("readable", "writable"):
                words = {getattr(one, ability) for one in parts}
                observed = getattr(state, ability)
                where = f"{state.topic}-{state.partition}, {parts[0].part}"
                if words == {"cannot"} and observed == "yes":
                    likelihood, count, told = "impossible", 1, f"{where}: the probe could"
                elif words == {"can"} and observed == "no" and conclusive:
                    likelihood, count, told = "certain", 0, f"{where}: the probe could not"
                else:
                    continue
                findings.append(
                    Finding(
                        anomaly=ability,
                        predicted=likelihood,
                        observed=count,
                        explanation=told,
                    )
                )
    return findings
