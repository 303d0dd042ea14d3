"""The folder of an exploration: what it refuses, and that several processes may use it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.errors import DiskError, RunDirectoryError, ScenarioError
from ackproof.exploration.document import operations_in_words
from ackproof.exploration.folder import Exploration, Folder
from ackproof.exploration.next_schedule import Ways, next_schedule
from ackproof.exploration.results import NOT_RUN, Proposal, Result, Schedule, counts
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.planning import OperationKind
from unit.harness.exploration.explorations import (
    SCENARIO,
    folder_at,
    opened,
    proposed_again,
    reached,
)
from unit.reference_model.planning.schedules import ELECTING, REJOINED, REJOINING


def result(seed: int, number: int) -> Result:
    schedule = Schedule(operations=(), records=5)
    return Result(
        seed=seed,
        number=number,
        known={},
        proposal=Proposal(schedule=schedule, origin="drawn"),
        verdict=NOT_RUN,
        reason="the engine ended",
    )


def test_results_of_several_processes_are_read_in_one_order(tmp_path: Path) -> None:
    one, _ = opened(tmp_path / "explored")
    other, _ = opened(tmp_path / "explored")
    other.add(result(8, 0))
    one.add(result(7, 0))
    assert list(one.results().items()) == list(other.results().items())
    one.add(result(7, 1))
    assert list(other.results()) == ["7-00000", "7-00001", "8-00000"]
    assert counts(other.results()) == {7: 2, 8: 1}
    assert other.results()["7-00001"] == result(7, 1)
    assert not list(tmp_path.rglob("*.partial"))


def test_the_planner_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ways = opened(tmp_path / "explored")
    monkeypatch.setattr("ackproof.exploration.folder.plans_to", None)
    _, again = opened(tmp_path / "explored")
    assert (again, len(again.plans_to(reached().pairs))) == (ways, 37)


@pytest.mark.parametrize("first", ["another model", "no model"])
def test_a_changed_model_plans_again_and_the_results_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """What was proposed before is proposed again from what the planner had found before."""
    folder = folder_at(tmp_path / "explored")
    folder.open()
    said = list[str]()
    with monkeypatch.context() as old:
        old.setattr("ackproof_model.source_digest.digest", lambda: "of another model")
        old.setattr("ackproof.exploration.folder.plans_to", lambda *_: {})
        ways = folder.ways(reached(), said.append)
    stored = folder.path / "ways.json"
    if first == "no model":  # as ackproof stored it at first
        stored.write_text(json.dumps(json.loads(stored.read_text())["schedules"]))
    before = stored.read_text()
    for number in range(2):
        folder.add(_ran(folder, number, ways))
    newer = folder.ways(reached(), said.append)
    assert said == ["planning schedules", "planning schedules again, by this model"]
    folder.add(_ran(folder, 2, newer))
    assert folder.ways(reached(), said.append) == newer
    assert len(said) == 2

    assert len(newer.pairs) > len(ways.pairs)
    results = folder.results()
    assert [one.proposal.origin for one in results.values()] == ["drawn", "drawn", "aimed"]
    assert json.loads(stored.read_text())["known"] == {"7": 2}
    assert (folder.path / "ways-0.json").read_text() == before
    for one in results.values():
        own = ways if one.number < 2 else newer
        assert proposed_again(one, results, own) == one.proposal


def _ran(folder: Folder, number: int, ways: Ways) -> Result:
    results = folder.results()
    proposal = next_schedule(7, number, results, begun=[], ways=ways)
    return result(7, number).model_copy(update={"proposal": proposal, "known": counts(results)})


@pytest.mark.parametrize("late", [True, False])
def test_what_loses_by_the_model_is_the_first_proposal_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """An election and two kills lose if a leader misses an epoch (B56), and not otherwise."""
    monkeypatch.setattr("ackproof.exploration.folder.plans_to", lambda *_: {})
    model = replace(ELECTING, misses_epochs=late)
    folder = Folder(tmp_path / "explored", Exploration.of(SCENARIO, model))
    folder.open()
    everything = replace(reached(), model=model, pairs=frozenset())
    ways = folder.ways(everything, lambda text: None)
    first = next_schedule(3, 0, folder.results(), begun=[], ways=ways)
    kinds = Counter(one.kind for one in first.schedule.operations)
    if late:
        assert (first.origin, first.schedule.operations) == ("aimed", *ways.breaking)
        assert kinds[OperationKind.ELECT] == 1
        assert kinds[OperationKind.KILL] == 2
    else:
        assert (first.origin, ways.breaking) == ("drawn", ())


def test_where_replicas_may_diverge_this_is_aimed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With acks=1 Kafka promises to keep nothing, but that replicas in sync hold the same (B11)."""
    monkeypatch.setattr("ackproof.exploration.folder.plans_to", lambda *_: {})
    model = AdversaryModel(
        kafka_version="1.1.1",
        acks="1",
        replicas=2,
        min_insync_replicas=1,
        unclean_election=True,
        budgets=Budgets(kills=2),
    )
    folder = Folder(tmp_path / "explored", Exploration.of(SCENARIO, model))
    folder.open()
    everything = replace(reached(), model=model, pairs=frozenset())
    [aimed] = folder.ways(everything, lambda text: None).breaking
    kinds = [one.kind for one in aimed]
    assert kinds == [
        OperationKind.WITHHOLD,
        OperationKind.KILL,
        OperationKind.KILL,
        OperationKind.START,
    ]


def test_a_loss_after_a_power_loss_is_aimed_at_if_kafka_promises_to_survive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a replica that is not in sync. Others lose in fewer operations."""
    monkeypatch.setattr("ackproof.exploration.folder.plans_to", lambda *_: {})
    folder = Folder(tmp_path / "explored", Exploration.of(SCENARIO, REJOINING))
    folder.open()
    everything = replace(reached(), model=REJOINING, pairs=frozenset())
    [operations] = folder.ways(everything, lambda text: None).breaking
    assert operations == REJOINED
    assert operations_in_words(SCENARIO, operations) == (
        "kill 3, hold ISR requests of 2 and at once, start 3, lose power 3, stop fetches from 2 "
        "and at once, start 3, end: hold ISR requests of 2, elect 3"
    )


def test_a_folder_of_other_limits_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "explored")
    with pytest.raises(
        ScenarioError, match="something else: kills is 1, not 2; in_all is 1, not 2"
    ) as error:
        folder_at(tmp_path / "explored", kills=2).open()
    assert "--out" in error.value.hint


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("scenario", "payments", "scenario is payments, not orders"),
        ("kafka_version", "4.4.0", "kafka_version is 4.4.0, not 4.3.1"),
    ],
)
def test_a_folder_of_another_scenario_or_version_is_refused(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    opened(tmp_path / "explored")
    path = tmp_path / "explored" / "exploration.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    (stored if key in stored else stored["model"])[key] = value
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ScenarioError, match=message):
        folder_at(tmp_path / "explored").open()


@pytest.mark.parametrize("name", ["exploration.json", "ways.json", "results/7-00000.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    folder, _ = opened(tmp_path / "explored")
    folder.add(result(7, 0))
    (tmp_path / "explored" / name).write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=f"{name} is damaged, or of another version"):
        opened(tmp_path / "explored")[0].results()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "explored").write_text("", encoding="utf-8")
    with pytest.raises(DiskError, match=r"explored cannot be written"):
        folder_at(tmp_path / "explored").open()


def test_no_two_processes_use_the_same_seed(tmp_path: Path) -> None:
    one, _ = opened(tmp_path / "explored")
    other, _ = opened(tmp_path / "explored")
    with one.seed(None, first=5) as own, other.seed(None, first=5) as theirs:
        assert (own, theirs) == (5, 6)
        with (
            pytest.raises(ScenarioError, match=r"another process explores .* with --seed 5"),
            other.seed(5, first=5),
        ):
            pass
    with other.seed(5, first=0) as own:
        assert own == 5
