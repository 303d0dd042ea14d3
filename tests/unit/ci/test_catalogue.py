"""The pages of docs/catalogue are what the stored results say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "ci" / "catalogue_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(**changes: Any) -> dict[str, Any]:
    return {
        "case": "B6",
        "arm": "3.9.1",
        "kafka": "3.9.1",
        "run": "run-1",
        "verdict": "holds",
        "reason": "as expected",
        "acked": 2000,
        "lost": 1234,
        "predicted": "possible",
        "unavailable_s": 3.25,
        "findings": [],
        "causes": ["last replica standing lost its bytes (B6): 1,234 records"],
        "timeline": [
            [1.5, "kill", "leader", "ended"],
            [2.0, "none", "all", "nothing"],
            [4.0, "power_loss", "leader", "cut | here"],
        ],
        "diagram": ["producer o-> 1"],
    } | changes


def test_the_committed_pages_are_current(catalogue: ModuleType) -> None:
    made = catalogue.pages(catalogue.stored())
    written = {path: path.read_text() for path in (ROOT / "docs" / "catalogue").glob("*.md")}
    assert written == made, "run: ci/catalogue --pages"


def test_every_stored_result_is_of_an_arm_that_exists(catalogue: ModuleType) -> None:
    arms = {
        (case, arm.name, arm.scenario.kafka)
        for case, arms in catalogue.catalogue().items()
        for arm in arms
    }
    stored = {(one["case"], one["arm"], one["kafka"]) for one in catalogue.stored()}
    assert stored <= arms, "remove the lines of arms that are gone from results.json"


def test_a_page_tells_what_a_run_lost_and_why(catalogue: ModuleType) -> None:
    made = catalogue.pages([result(run="run-0", lost=0), result()])
    page = made[ROOT / "docs" / "catalogue" / "b06-last-replica-standing.md"]
    assert "lost 1,234 of 2,000 acked records" in page
    assert "1 of 2 stored runs lost records" in page
    assert "last replica standing lost its bytes (B6): 1,234 records" in page
    assert "| 2.5 | power_loss | leader | cut \\| here |" in page
    assert "producer o-> 1" in page
    overview = made[ROOT / "docs" / "catalogue" / "README.md"]
    assert "| 3.9.1 | 3.9.1 | a loss | 1 of 2 runs | 1,234 / 2,000 | possible |" in overview


def test_an_inconclusive_run_proves_nothing(catalogue: ModuleType) -> None:
    made = catalogue.pages([result(verdict="inconclusive")])
    assert "1,234" not in "".join(made.values())


def test_a_run_that_is_judged_again_replaces_its_line(
    catalogue: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "RESULTS", tmp_path / "results.json")
    catalogue.store([result(run="a"), result(run="b")])
    catalogue.store([result(run="a", lost=7), result(run="c")])
    assert [(one["run"], one["lost"]) for one in catalogue.stored()] == [
        ("b", 1234),
        ("a", 7),
        ("c", 1234),
    ]


def test_cases_are_selected_by_id_version_and_shard(catalogue: ModuleType) -> None:
    assert catalogue.selected(["b6"], kafka="", shard="") == ["B6"]
    assert catalogue.selected(["B6"], kafka="2.6.2", shard="") == []
    every = catalogue.selected([], kafka="", shard="")
    assert "B6" in every
    assert "B15" not in every  # no client here can run it
    parts = [catalogue.selected([], kafka="", shard=f"{part}/3") for part in (1, 2, 3)]
    assert sorted(case for part in parts for case in part) == sorted(every)
    with pytest.raises(SystemExit, match="B60"):
        catalogue.selected(["B60"], kafka="", shard="")
