"""The comparison of a run with the predicted fate of each phase's records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackproof.planning.compiler import Phase
from ackproof.planning.outcome import as_predicted, phase_outcomes
from support.run_directories import RunDirectory, at


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with sends at seconds 1 to 9, each acked half a second later; those below 5 lost."""
    sends = [
        {
            "sequence": number,
            "outcome": "acked" if number != 9 else "unknown",
            "sent_at": at(number),
            "resolved_at": at(number + 0.5),
        }
        for number in range(1, 10)
    ]
    keys = ("sequence", "sent_at", "resolved_at")
    lost = [{"anomaly": "lost", **{key: one[key] for key in keys}} for one in sends[:4]]
    windows = [
        {"parameters": json.dumps({"id": name}), "injected_at": at(when), "verified_at": at(when)}
        for name, when in {"acked-0": 2.7, "rest-1": 4.2, "acked-1": 9.8}.items()
    ]
    run = RunDirectory(path=tmp_path)
    return run.write("ledger", sends).write("anomalies", lost).write("fault_windows", windows).path


@pytest.mark.parametrize(
    ("after", "until", "fate", "acked", "lost", "decided"),
    [
        ("", "acked-0", "lost", 2, 2, True),
        ("", "acked-0", "kept", 2, 2, False),
        ("rest-1", "acked-1", "kept", 4, 0, True),  # of 5 to 8: 9 is unknown
        ("rest-1", "acked-1", "lost", 4, 0, False),
        ("", "acked-1", "lost", 8, 4, False),
        ("", "acked-1", "some", 8, 4, True),
        ("rest-1", "acked-1", "some", 4, 0, None),  # a race that lost nothing
        ("", "never-began", "lost", 0, 0, None),
        ("never-began", "acked-1", "kept", 0, 0, None),
    ],
)
def test_a_phase_is_as_predicted_if_all_or_none_of_its_records_are_lost(  # noqa: PLR0917 -- a table
    run_dir: Path, after: str, until: str, fate: str, acked: int, lost: int, decided: bool | None
) -> None:
    (found,) = phase_outcomes(run_dir, [Phase(after=after, until=until, fate=fate)])
    assert (found.acked, found.lost) == (acked, lost)
    assert as_predicted([found]) is decided


def test_a_phase_without_records_decides_nothing(run_dir: Path) -> None:
    lost = Phase(after="", until="acked-0", fate="lost")
    empty = Phase(after="rest-1", until="rest-1", fate="lost")
    kept = Phase(after="rest-1", until="acked-1", fate="kept")
    nothing = Phase(after="never-began", until="acked-1", fate="kept")
    outcomes = phase_outcomes(run_dir, [lost, empty, kept])
    assert [one.acked for one in outcomes] == [2, 0, 4]
    assert as_predicted(outcomes) is True
    assert as_predicted(phase_outcomes(run_dir, [lost, nothing])) is None


def test_a_race_is_shown_by_one_phase_and_hides_no_contradiction(run_dir: Path) -> None:
    raced = Phase(after="", until="acked-0", fate="some")
    spared = Phase(after="rest-1", until="acked-1", fate="some")
    wrong = Phase(after="", until="acked-0", fate="kept")
    assert as_predicted(phase_outcomes(run_dir, [raced, spared])) is True
    assert as_predicted(phase_outcomes(run_dir, [spared])) is None
    assert as_predicted(phase_outcomes(run_dir, [spared, wrong])) is False
