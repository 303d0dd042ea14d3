"""The comparison of a run with the predicted fate of each phase's records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ackproof.planning.compiler import Phase
from ackproof.planning.outcome import all_as_predicted, phase_outcomes
from ackproof.runs import directory as runs
from ackproof_spark import tables
from ackproof_spark.tables import LOCATION

START = datetime(2026, 1, 1, tzinfo=UTC)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with sends at seconds 1 to 9, each acked half a second later; those below 5 lost."""
    sends = [
        {
            "producer": 1,
            "sequence": number,
            "topic": "orders",
            "partition": 0,
            "outcome": "acked" if number != 9 else "unknown",
            "error": None,
            "offset": number,
            "sent_at": second(number),
            "resolved_at": second(number + 0.5),
        }
        for number in range(1, 10)
    ]
    lost = [
        {
            **{key: one[key] for key in ("producer", "sequence", "topic", "partition", "offset")},
            "sent_at": one["sent_at"],
            "resolved_at": one["resolved_at"],
            "anomaly": "lost",
            "window": None,
            "found": "nothing",
        }
        for one in sends[:4]
    ]
    windows = [
        {
            "window": number,
            "fault": "none",
            "target": "all",
            "nodes": [1],
            "parameters": json.dumps({"id": name}),
            "trigger": "at once",
            "injected_at": second(at),
            "verified_at": second(at),
            "healed_at": None,
            "recovered_at": None,
            "verified": True,
            "evidence": "",
        }
        for number, (name, at) in enumerate({"acked-0": 2.7, "rest-1": 4.2, "acked-1": 9.8}.items())
    ]
    for table, rows in (("ledger", sends), ("anomalies", lost), ("fault_windows", windows)):
        path = tmp_path / LOCATION[table]
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.suffix:
            path.mkdir()
            path /= "part-0.parquet"
        runs.write_table(path, getattr(tables, table.upper()), "run", rows)
    return tmp_path


@pytest.mark.parametrize(
    ("after", "until", "fate", "acked", "lost", "as_predicted"),
    [
        ("", "acked-0", "lost", 2, 2, True),
        ("", "acked-0", "kept", 2, 2, False),
        ("rest-1", "acked-1", "kept", 4, 0, True),  # of 5 to 8: 9 is unknown
        ("rest-1", "acked-1", "lost", 4, 0, False),
        ("", "acked-1", "lost", 8, 4, False),
        ("", "never-began", "lost", 0, 0, False),
        ("never-began", "acked-1", "kept", 0, 0, False),
    ],
)
def test_a_phase_is_as_predicted_if_all_or_none_of_its_records_are_lost(  # noqa: PLR0917 -- a table
    run_dir: Path, after: str, until: str, fate: str, acked: int, lost: int, as_predicted: bool
) -> None:
    (found,) = phase_outcomes(run_dir, [Phase(after=after, until=until, fate=fate)])
    assert (found.acked, found.lost) == (acked, lost)
    assert all_as_predicted([found]) == as_predicted


def test_a_phase_without_records_decides_nothing(run_dir: Path) -> None:
    lost = Phase(after="", until="acked-0", fate="lost")
    empty = Phase(after="rest-1", until="rest-1", fate="lost")
    kept = Phase(after="rest-1", until="acked-1", fate="kept")
    nothing = Phase(after="never-began", until="acked-1", fate="kept")
    outcomes = phase_outcomes(run_dir, [lost, empty, kept])
    assert [one.acked for one in outcomes] == [2, 0, 4]
    assert all_as_predicted(outcomes)
    assert not all_as_predicted(phase_outcomes(run_dir, [lost, nothing]))
