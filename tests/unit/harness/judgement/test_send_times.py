"""The times of the ledger are held against the run's, and against the producers' pages."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ackproof.clients.shared_page import ProgressPage, State, recorded_span
from ackproof.judgement.conclusiveness import without_times
from ackproof.judgement.send_times import contradictions
from ackproof.runs import directory as runs
from ackproof.runs.verdict import Metrics
from ackproof.scenario.loader import load
from ackproof.scenario.model import Expect, ExpectedStep
from spark_histories import parse
from stored_runs import store

START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
SENDS = [f"0/{n} to 0: acked at {n} [{n}-{n + 1}]" for n in range(20)]
EVERY = "producer-0 has 20 acked sends without their times"


def stored(tmp_path: Path, *, sends: list[str] = SENDS, **times: float | None) -> Path:
    """Store a run of these sends; `times` are those of each send."""
    history = parse({"sends": sends, "log": [], "ends": ["0: 0-20"]})
    made = [replace(send, **times) for send in history.sends]
    return store(tmp_path / "run", replace(history, sends=made))


def page(
    run_dir: Path, *, state: State = State.DONE, started: float = 0, updated: float = 20
) -> None:
    span = (START_US + int(second * 1e6) for second in (started, updated))
    path = run_dir / "clients" / "producer-0.progress"
    path.parent.mkdir()
    path.write_bytes(struct.pack("=7q", state, 20, 20, 0, 0, *span).ljust(4096, b"\0"))


def change_scenario(run_dir: Path, **changes: object) -> None:
    path = run_dir / "scenario.yaml"
    document = YAML(typ="safe").load(path)
    workload = {**document["workload"], **changes.pop("workload", {})}
    YAML(typ="safe").dump({**document, **changes, "workload": workload}, path)


def said(run_dir: Path) -> list[str]:
    scenario = load(run_dir / "scenario.yaml")[0].scenario
    return list(contradictions(run_dir, scenario, runs.read_record(run_dir)))


def test_the_span_of_a_page_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = ProgressPage(tmp_path / "page", create=True)
    written.started_at = 3
    written.count(sent=1, acked=0, failed=0, unknown=0, at=7)
    assert recorded_span(tmp_path / "page") == (3, 7)


@pytest.mark.parametrize(
    "of_page",
    [
        {},
        {"started": 0.9, "updated": 19.1},  # the clock was set right
        {"updated": 29},
        {"state": State.PRODUCING, "started": -30, "updated": 50},  # killed
    ],
)
def test_times_that_agree_pass(tmp_path: Path, of_page: dict[str, float]) -> None:
    run_dir = stored(tmp_path)
    assert said(run_dir) == []  # an older run has no pages
    page(run_dir, **of_page)
    assert said(run_dir) == []


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ({"sent": None, "resolved": None}, EVERY),
        ({"sent": None}, EVERY),
        ({"resolved": None}, EVERY),
        ({"resolved": -5.0}, "producer-0 has 20 sends that were acked before they were sent"),
        ({"resolved": 62.0}, "producer-0 has sends that are dated outside the run"),
        ({"sent": -2.0}, "producer-0 has sends that are dated outside the run"),
        ({"sent": 0.0, "resolved": 0.0}, "producer-0 ends 20.0 s before its producer did"),
        ({"sent": 20.0, "resolved": 20.0}, "producer-0 begins 20.0 s after the first send"),
    ],
)
def test_times_that_cannot_be_are_named(
    tmp_path: Path, times: dict[str, float | None], reason: str
) -> None:
    run_dir = stored(tmp_path, **times)
    page(run_dir)
    assert reason in "; ".join(said(run_dir))


@pytest.mark.parametrize("of_page", [{"started": 3}, {"updated": 15}, {"updated": 40}])
def test_a_page_of_another_time_is_named(tmp_path: Path, of_page: dict[str, float]) -> None:
    run_dir = stored(tmp_path)
    page(run_dir, **of_page)
    assert len(said(run_dir)) == 1


def test_sends_that_are_not_acked_need_no_times(tmp_path: Path) -> None:
    sends = [*SENDS[:19], "0/19 to 0: unknown"]
    run_dir = stored(tmp_path, sends=sends)
    page(run_dir)
    assert said(run_dir) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": {"transactions": {"size": 10}}},
        {"faults": [{"fault": "pause_client", "client": "producer 0", "when": "3 acked"}]},
        {"workload": {"rate": "0.04/s"}},
    ],
)
def test_a_producer_that_may_rest_before_its_end_is_not_named(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    run_dir = stored(tmp_path)
    page(run_dir, updated=40)
    assert len(said(run_dir)) == 1
    change_scenario(run_dir, **changes)
    assert said(run_dir) == []


def test_nothing_is_claimed_of_times_that_cannot_be(tmp_path: Path) -> None:
    run_dir = stored(tmp_path, sent=None, resolved=None)
    assert said(run_dir) == [EVERY]
    measured = Metrics(
        duration_s=1,
        acked_per_s=1,
        unavailability_s=0,
        unavailability_gap_s=1,
        ack_latency_ms=None,
    )
    # The counts of records are certain.
    assert without_times(Expect(), measured, [EVERY]) == []
    for expect in (
        Expect(availability=">= 99 %"),
        Expect(write_availability=">= 99 %"),
        Expect(steps={"alone": ExpectedStep(readable=True)}),
    ):
        assert without_times(expect, measured, [EVERY]) == [EVERY]
