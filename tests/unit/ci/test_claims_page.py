"""docs/claims.md is what the list of claims and the stored results say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ackproof.scenario.loader import load

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def claims() -> ModuleType:
    spec = importlib.util.spec_from_file_location("claims_page", ROOT / "ci" / "claims_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def run(verdict: str = "holds", kafka: str = "2.6.2") -> dict[str, Any]:
    return {
        "scenario": "b17-retry-duplicate",
        "arm": "idempotent",
        "kafka": kafka,
        "run": "run-1",
        "verdict": verdict,
        "reason": "as expected; not observed: latency",
    }


def test_the_committed_page_is_current(claims: ModuleType) -> None:
    made = claims.page(claims.listed(), claims.stored())
    assert claims.PAGE.read_text() == made, "run: ci/claims --pages"


def test_no_stored_result_contradicts_the_list(claims: ModuleType) -> None:
    assert claims.contradictions(claims.listed(), claims.stored()) == []


def test_every_claim_has_a_number_and_what_shows_it_exists(claims: ModuleType) -> None:
    listed = claims.listed()
    numbers = [str(one) for one in range(1, 60)] + [f"N{one}" for one in range(1, 38)]
    assert [claim["id"] for claim in listed] == numbers
    for claim in listed:
        assert set(claim["verdict"].values()) <= {"holds", "does not", "changed"}
        for path in claim.get("tests", []):
            assert (ROOT / path).exists(), path
        for name, arms in claim.get("runs", {}).items():
            known = {one.name for one in load(ROOT / "scenarios" / f"{name}.yaml")}
            assert set(arms) <= known, claim["id"]


def test_a_verdict_needs_a_stored_result(claims: ModuleType) -> None:
    assert "| - | not run | not run | - |" in claims.page(LISTED, [])
    assert "| - | holds | not run | - |" in claims.page(LISTED, [trial()])
    assert "| - | holds | changed | - |" in claims.page(
        LISTED, [run(), trial(kafka="3.9.1", holds=False)]
    )
    assert "2.6.2, trial `outages.stops`: one \\| down" in claims.page(LISTED, [trial()])


def test_a_result_that_is_not_as_listed_is_said(claims: ModuleType) -> None:
    for seen in (trial(holds=False), run("violated"), trial(kafka="3.9.1")):
        assert len(claims.contradictions(LISTED, [seen])) == 1
        assert "not as listed" in claims.page(LISTED, [seen])


def test_newer_results_replace_older_ones(
    claims: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(claims, "CATALOGUE", tmp_path / "none.json")
    verdicts = tmp_path / "runs.json"
    told = {**run(), "configuration_name": "idempotent", "kafka_version": "2.6.2", "run_id": "r"}
    verdicts.write_text(json.dumps([told]))
    claims.store([trial(), run(), trial(kafka="3.9.1")])
    claims.store([*claims.runs(verdicts), trial(holds=False)])
    found = claims.stored()
    assert len(found) == 3
    assert {one["run"] for one in found if "run" in one} == {"r"}
    assert [
        one["holds"] for one in found if (one.get("claim"), one["kafka"]) == ("42", "2.6.2")
    ] == [False]
