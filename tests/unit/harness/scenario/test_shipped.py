from __future__ import annotations

import zipfile
from pathlib import Path

import catalogue_pages
import pytest

from ackproof.errors import ExitCode
from ackproof.scenario import shipped
from ackproof.scenario.loader import load
from command_line import ackproof

FOLDER = Path(__file__).parents[4] / "scenarios"
CASES = [path for path in shipped.files() if "\ncase:" in path.read_text()]
CATALOGUE = sorted((FOLDER / "catalogue").glob("*.yaml"))


def test_the_folder_is_that_of_the_checkout() -> None:
    assert shipped.folder() == FOLDER


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("B6", "catalogue/b06-last-replica-standing.yaml"),
        ("b6", "catalogue/b06-last-replica-standing.yaml"),
        ("b06-last-replica-standing", "catalogue/b06-last-replica-standing.yaml"),
        ("catalogue", "catalogue"),
        ("acks", "acks.yaml"),
        ("CP", "recommended/cp.yaml"),
        ("acks.yaml", "acks.yaml"),
        ("guarantees/order", "guarantees/order.yaml"),
    ],
)
def test_a_scenario_is_found_by_case_file_or_folder(name: str, expected: str) -> None:
    assert shipped.find(name) == FOLDER / expected


@pytest.mark.parametrize("name", ["B60", "b", "cks", "6", "nowhere/order"])
def test_other_names_are_not_found(name: str) -> None:
    assert shipped.find(name) is None


def test_no_two_shipped_files_have_the_same_name() -> None:
    stems = [path.stem for path in shipped.files()]
    assert sorted(set(stems)) == sorted(stems)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_file_of_a_case_begins_with_its_number_and_is_its_name(path: Path) -> None:
    scenario = catalogue_pages.arms_of(path)[0].scenario
    assert scenario.case is not None
    assert shipped.case_id(path) == scenario.case.id.upper()
    assert scenario.name == path.stem


@pytest.mark.parametrize("path", CATALOGUE, ids=lambda path: path.stem)
def test_every_arm_of_the_catalogue_says_what_it_expects(path: Path) -> None:
    from ruamel.yaml import YAML

    document = YAML(typ="safe").load(path.read_text())
    assert "case" in document
    for arm in (document.get("matrix") or {"": document}).values():
        assert arm.get("expect"), "every arm has an expect of its own"


def test_a_file_of_the_user_comes_before_a_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acks").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert ackproof("validate", "acks") == ExitCode.USAGE
    assert ackproof("validate", "B6") == ExitCode.HOLDS


def test_a_copy_is_a_valid_scenario_and_overwrites_nothing(tmp_path: Path) -> None:
    copy, source = tmp_path / "mine.yaml", FOLDER / "catalogue" / "b06-last-replica-standing.yaml"
    assert ackproof("init", copy, "--from", "B6") == ExitCode.HOLDS
    assert load(copy)[0].scenario == load(source)[0].scenario
    assert copy.read_text() == shipped.without_schema(source.read_text()) != source.read_text()
    assert ackproof("init", copy, "--from", "B6") == ExitCode.USAGE
    assert ackproof("init", tmp_path / "other.yaml", "--from", "B60") == ExitCode.USAGE


def test_the_wheel_has_the_scenarios(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(FOLDER.parent)).build(
        directory=str(tmp_path), versions=["standard"]
    )
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {
        f"ackproof/scenarios/{path.relative_to(FOLDER).as_posix()}" for path in shipped.files()
    } <= inside
