"""Whether the observation matches the prediction, and the sentences about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ackproof.report import wording
from ackproof.runs.verdict import Verdict, Word

Agreement = Literal["yes", "no", "undecided"]


def agreement(verdict: Verdict, anomaly: str) -> Agreement:
    """Return whether the observation of one anomaly matches the prediction.

    It does not where there is a finding. Undecided: there is no prediction, or no model of such a
    cluster; or the observation contradicts it, but is no finding because the run is inconclusive;
    or nothing was observed, as predicted, in an inconclusive run, which may have missed it.
    """
    if any(finding.anomaly == anomaly for finding in verdict.findings):
        return "no"
    prediction, occurred = verdict.predicted.get(anomaly), verdict.observed.get(anomaly, 0) > 0
    conclusive = verdict.verdict is not Word.INCONCLUSIVE
    agrees: dict[str | None, bool] = {
        "certain": occurred,
        "possible": True,
        "impossible": not occurred and conclusive,
    }
    return "yes" if agrees.get(prediction) else "undecided"


def agreement_of(verdict: Verdict) -> Agreement:
    """Return whether the observation matches the prediction for every anomaly."""
    all_of = {agreement(verdict, anomaly) for anomaly in verdict.predicted}
    if "no" in all_of or verdict.findings:
        return "no"
    return "undecided" if "undecided" in all_of or not all_of else "yes"


def agreed(verdicts: Sequence[Verdict]) -> str:
    """Return a sentence on the configurations that match; empty if there is none."""
    agreeing = [verdict for verdict in verdicts if agreement_of(verdict) == "yes"]
    if not agreeing:
        return ""
    if len(agreeing) == len(verdicts) > 1:
        what = (
            "configurations" if len(set(map(wording.name, verdicts))) == len(verdicts) else "runs"
        )
        return f"Matches prediction: yes, in all {len(verdicts)} {what}."
    return f"Matches prediction: yes, in {wording.names(agreeing)}."


def agreement_sentences(verdicts: Sequence[Verdict]) -> list[str]:
    """Return sentences on agreement, on findings, and on undecided runs with the reason."""
    sentences = [agreed(verdicts)]
    for verdict in verdicts:
        for finding in wording.finding_sentences(verdict):
            sentences.append(f"FINDING in {wording.name(verdict)}: {finding}")
        if agreement_of(verdict) == "undecided":
            reason = verdict.reason if verdict.predicted else "no prediction was made"
            sentences.append(f"Undecided in {wording.name(verdict)}: {reason}")
    return [sentence for sentence in sentences if sentence]
