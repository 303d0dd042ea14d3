"""The worst case of a schedule allows everything that the exact search of it finds.

`ci/lab/agreement` compares all schedules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ackproof.scenario.model import Scenario
from ackproof_model.perturbations import WorstCase
from agreement.sampling import FULL, sample, with_progress
from agreement.schedules import (
    Document,
    Searches,
    drawn,
    excluded_in_a_block,
    of_stored_runs,
    single,
    unexpected,
)

MOST_STATES = 3_000 if FULL else 1_000


def title(document: Document) -> str:
    settings = document["workload"]["settings"]
    return f"{document['kafka']}, {settings}, {document['faults']}"


def reported(kind: str, count: int, searches: Searches, found: Sequence[str]) -> None:
    sys.stdout.write(
        f"{kind}: {count} schedules, {searches.number} different searches, of which "
        f"{searches.ended} ended; {len(found)} contradictions\n"
    )
    assert not found, "\n".join(found)


def test_a_single_fault_is_within_its_worst_case_and_within_a_random_block() -> None:
    searches, found = Searches(MOST_STATES), []
    pairs = sample(list(single()), every=89)
    for documents in with_progress(pairs):
        alone, block = (Scenario.model_validate(one) for one in documents)
        contradictions = [
            *unexpected(alone, searches),
            *excluded_in_a_block(alone, block),
        ]
        found += [f"{title(documents[0])}: {one}" for one in dict.fromkeys(contradictions)]
    reported("single faults", len(pairs), searches, found)


def test_drawn_schedules_are_within_their_worst_case(tmp_path: Path) -> None:
    searches, found = Searches(MOST_STATES), []
    seeds = sample(range(2_000), every=60)
    for seed in with_progress(seeds):
        scenario = drawn(seed, tmp_path)
        found += [f"seed {seed}: {one}" for one in dict.fromkeys(unexpected(scenario, searches))]
    reported("drawn schedules", len(seeds), searches, found)


def test_stored_schedules_are_within_their_worst_case() -> None:
    searches, found = Searches(MOST_STATES), []
    documents = sample(of_stored_runs(), every=20)
    for document in with_progress(documents):
        scenario = Scenario.model_validate(document)
        found += [
            f"{title(document)}: {one}" for one in dict.fromkeys(unexpected(scenario, searches))
        ]
    reported("stored schedules", len(documents), searches, found)


def test_the_comparison_finds_a_fault_whose_worst_case_forgets_what_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: only an end without an answer makes a producer send again, no deposed leader."""
    monkeypatch.setattr(WorstCase, "resends", property(lambda worst: worst.unanswered))
    searches = Searches(1_000)
    found = {
        one
        for document, _ in single()
        if (document["kafka"], document["faults"][0]["fault"]) == ("4.4.0", "kill")
        for one in unexpected(Scenario.model_validate(document), searches)
    }
    assert any(one.startswith("reordered: every request is answered") for one in found)
