"""The list of published claims, and the stored results of their trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import claims_page as claims
import pytest
from catalogue_pages import arms_of

ROOT = Path(__file__).parents[3]


LISTED: list[dict[str, Any]] = [
    {
        "id": "42",
        "articles": ["004"],
        "claim": "One death stops writes.",
        "verdict": {"2.6.2": "holds", "3.9.1": "changed"},
        "runs": {"catalogue/b17-retry-duplicate": ["idempotent"]},
    }
]


def trial(*, kafka: str = "2.6.2", holds: bool = True) -> dict[str, Any]:
    return {
        "claim": "42",
        "kafka": kafka,
        "holds": holds,
        "trial": "outages.stops",
        "evidence": "one | down",
    }


def run(verdict: str = "holds", kafka: str = "2.6.2", lost: int = 0) -> dict[str, Any]:
    return {
        "scenario": "catalogue/b17-retry-duplicate",
        "arm": "idempotent",
        "kafka": kafka,
        "run": "run-1",
        "verdict": verdict,
        "reason": "as expected; not observed: latency",
        "observed": {"sent": 9, "lost": lost},
    }


def test_no_stored_result_contradicts_the_list() -> None:
    assert claims.contradictions(claims.listed(), claims.stored()) == []


def test_every_claim_has_a_number_and_what_shows_it_exists() -> None:
    listed = claims.listed()
    numbers = [str(one) for one in range(1, 60)] + [f"N{one}" for one in range(1, 38)]
    assert [claim["id"] for claim in listed] == numbers
    for claim in listed:
        assert set(claim["verdict"].values()) <= {"holds", "does not", "changed"}
        for path in claim.get("tests", []):
            assert (ROOT / path).exists(), path
        for name, arms in claim.get("runs", {}).items():
            known = {one.name for one in arms_of(ROOT / "scenarios" / f"{name}.yaml")}
            assert set(arms) <= known, claim["id"]


def test_a_verdict_needs_a_stored_result() -> None:
    assert "| - | not run | not run | - |" in claims.results(LISTED, [])
    assert "| - | holds | not run | - |" in claims.results(LISTED, [trial()])
    assert "| - | holds | changed | - |" in claims.results(
        LISTED, [run(), trial(kafka="3.9.1", holds=False)]
    )
    assert "2.6.2, trial `outages.stops`: one \\| down" in claims.results(LISTED, [trial()])


def test_a_run_shows_a_claim_by_what_its_arm_expects_now() -> None:
    assert claims.contradictions(LISTED, [run()]) == []
    (said,) = claims.contradictions(LISTED, [run(lost=3)])
    assert "42 on 2.6.2" in said


def test_a_result_that_is_not_as_listed_is_said() -> None:
    for seen in (trial(holds=False), run("violated"), trial(kafka="3.9.1")):
        assert len(claims.contradictions(LISTED, [seen])) == 1
        assert "not as listed" in claims.results(LISTED, [seen])


def test_newer_trials_replace_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "results.jsonl")
    catalogue = tmp_path / "catalogue.jsonl"
    catalogue.write_text("".join(json.dumps(one) + "\n" for one in (run(), run("inconclusive"))))
    monkeypatch.setattr(claims.catalogue_pages, "RESULTS", catalogue)
    claims.store([trial(), trial(kafka="3.9.1")])
    claims.store([trial(holds=False)])
    found = claims.stored()
    assert [one["verdict"] for one in found if "run" in one] == ["holds"]
    assert [(one["kafka"], one["holds"]) for one in found if "claim" in one] == [
        ("2.6.2", False),
        ("3.9.1", True),
    ]
