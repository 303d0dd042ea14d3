"""Predictions allow what share groups showed on brokers, and tell the cases from their twins."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from ackproof.prediction.predict import predict
from ackproof.scenario.loader import load
from ackproof_model import share_groups

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "tests" / "results" / "catalogue.jsonl"

#: Cases without a fault on brokers, of which a run shows everything that is possible.
EXACT = ("b37", "b38", "b40")


def shown() -> dict[tuple[str, str], set[str]]:
    """Return what the stored runs of each configuration with a share group showed."""
    of_arms: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in RUNS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        file = ROOT / "scenarios" / f"{row['scenario']}.yaml"
        if "via: share" in file.read_text(encoding="utf-8"):
            seen = {one for one in share_groups.ANOMALIES if row["observed"].get(one)}
            of_arms[row["scenario"], row["arm"]] |= seen
    return of_arms


@pytest.mark.parametrize("scenario", sorted({scenario for scenario, _ in shown()}))
def test_what_runs_showed_is_predicted(scenario: str) -> None:
    for configured in load(ROOT / "scenarios" / f"{scenario}.yaml"):
        predicted = predict(configured.scenario).predicted
        words = {one: predicted[one] for one in share_groups.ANOMALIES if one in predicted}
        seen = shown().get((scenario, configured.name))
        if seen is None:
            continue
        assert "impossible" not in {words[one] for one in seen}
        renews = "renew" in configured.scenario.workload.consumers["workers"].acknowledge
        if Path(scenario).name.startswith(EXACT) and not renews:
            assert {one for one, word in words.items() if word != "impossible"} == seen
