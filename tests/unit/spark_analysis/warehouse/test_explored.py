"""Explorations in a warehouse: rows of a stored folder, and the table and view made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.exploration.folder import Exploration, Folder
from ackproof.warehouse import explorations
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_spark.warehouse.load import load_explored
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.harness.exploration.explorations import PAIRS, SCENARIO, TWO_REPLICAS, explored


def test_each_pair_that_the_model_reaches_is_a_row(tmp_path: Path) -> None:
    path = explored(tmp_path / "explored-orders", (PAIRS[:2], PAIRS[1:4]), (PAIRS[1:2], []))
    found = explorations.read(path)
    assert found.id.startswith("explored-orders-")
    assert (len(found.rows), found.certain) == (len(PAIRS), 2)
    rows = [(row["passed"], row["results"], row["first_result"]) for row in found.rows]
    assert rows[:5] == [
        ("certain", 1, "1-00000"),
        ("certain", 2, "1-00000"),
        ("possible", 0, None),
        ("possible", 0, None),
        ("never", 0, None),
    ]
    row = found.rows[0]
    assert (row["scenario"], row["kafka_version"]) == ("orders", "4.3.1")
    assert row["settings"]["min.insync.replicas"] == "2"
    assert row["limits"] == "up to 2 SIGKILLs, together at most 2"
    leaders = [(row["leader_before"], row["last_leader_before"]) for row in found.rows]
    numbers = [(pair.before.leader, pair.before.last_known) for pair in PAIRS]
    assert leaders == [tuple(None if one < 0 else one for one in both) for both in numbers]
    assert {None, 0, 1} == {leader for leader, _ in leaders} == {last for _, last in leaders}


def test_other_limits_and_other_folders_are_other_explorations(tmp_path: Path) -> None:
    own = explorations.read(explored(tmp_path / "explored-orders"))
    assert own.id == explorations.read(explored(tmp_path / "again" / "explored-orders")).id
    assert own.id != explorations.read(explored(tmp_path / "explored-others")).id
    stored = tmp_path / "explored-orders" / "exploration.json"
    changed = json.loads(stored.read_text())
    changed["model"]["acks"] = "1"
    stored.write_text(json.dumps(changed))
    assert own.id != explorations.read(stored.parent).id


@pytest.mark.parametrize(
    "model",
    [
        TWO_REPLICAS,
        AdversaryModel(
            kafka_version="4.4.0",
            misses_epochs=True,
            spare_brokers=1,
            targets=((0, 1, 2), (3, 1, 2)),
            budgets=Budgets(reassignments=2, shrinks=2, kills=1, in_all=3),
        ),
    ],
)
def test_a_stored_exploration_asks_what_was_asked(tmp_path: Path, model: AdversaryModel) -> None:
    folder = Folder(tmp_path / "explored", Exploration.of(SCENARIO, model))
    folder.open()
    again = Folder.stored(folder.path).exploration
    assert Exploration.of(SCENARIO, again.asked()) == folder.exploration
    assert again.asked().requests == model.requests


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    path = explored(tmp_path / "explored-orders")
    stored = path / "exploration.json"
    changed = json.loads(stored.read_text())
    changed["model"]["later"] = 1
    stored.write_text(json.dumps(changed))
    with pytest.raises(RunDirectoryError, match=r"exploration.json is of another version"):
        explorations.read(path)


def rows_of(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    return warehouse.queries(
        {
            "pairs": "SELECT * FROM explored_pairs",
            "coverage": "SELECT * FROM coverage WHERE step = 'learn'",
        }
    )


@pytest.mark.spark
@pytest.mark.usefixtures("few_rows")
def test_loading_again_replaces_the_rows_of_an_exploration(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    learned = [pair for pair in PAIRS if pair.step == "learn"]
    path = explored(tmp_path / "explored-orders", (learned[:1], learned[1:2]))
    other = explorations.read(explored(tmp_path / "explored-others"))
    for _ in range(2):
        own = explorations.read(path)
        load_explored(warehouse, {own.id: own.rows, other.id: other.rows})
    found = rows_of(warehouse)
    assert len(found["pairs"]) == 2 * len(PAIRS)
    stored = [
        {name: row[name] for name in own.rows[0]}
        for row in found["pairs"]
        if row["run_id"] == own.id
    ]
    assert len(stored) == len(own.rows)
    assert all(row in stored for row in own.rows)
    by_exploration = {row["exploration"]: row for row in found["coverage"]}
    row = by_exploration[own.id]
    assert (row["pairs"], row["pairs_certain"], row["pairs_possible"]) == (len(learned), 1, 1)
    assert row["pairs_certain_share"] == pytest.approx(1 / len(learned))
    assert by_exploration[other.id]["pairs_certain"] == 0

    explored(path, (learned[:1], []), (learned[:2], []))
    own = explorations.read(path)
    load_explored(warehouse, {own.id: own.rows})
    row = {row["exploration"]: row for row in rows_of(warehouse)["coverage"]}[own.id]
    assert (row["pairs"], row["pairs_certain"]) == (len(learned), 2)
