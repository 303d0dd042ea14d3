from __future__ import annotations

from ackproof.judgement.findings import contradictions
from ackproof.runs.verdict import Likelihood


def predicted(**likelihoods: Likelihood) -> dict[str, Likelihood]:
    names = ("lost", "duplicated", "reordered", "phantom", "corrupt")
    return {name: likelihoods.get(name, "possible") for name in names}


def test_an_observed_impossible_anomaly_is_a_finding() -> None:
    (finding,) = contradictions(predicted(lost="impossible"), {"lost": 3}, conclusive=False)
    assert (finding.anomaly, finding.observed) == ("lost", 3)


def test_unfinished_work_is_a_finding_in_a_conclusive_run_only() -> None:
    foreseen: dict[str, Likelihood] = {"unprocessed": "impossible"}
    assert contradictions(foreseen, {"unprocessed": 2}, conclusive=True)
    assert not contradictions(foreseen, {"unprocessed": 2}, conclusive=False)


def test_the_absence_of_a_certain_anomaly_is_a_finding_in_a_conclusive_run() -> None:
    assert contradictions(predicted(lost="certain"), {"lost": 0}, conclusive=True)
    assert not contradictions(predicted(lost="certain"), {"lost": 0}, conclusive=False)


def test_agreement_is_no_finding() -> None:
    seen = {"lost": 3, "duplicated": 1}
    assert not contradictions(predicted(lost="certain"), seen, conclusive=True)
    assert not contradictions(predicted(), seen, conclusive=True)
    assert not contradictions(predicted(lost="impossible"), {"lost": 0}, conclusive=True)
