"""Trials and their store, shared by `compare` and `shrink`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.errors import ClusterError, DiskError, RunDirectoryError
from ackproof.runs.verdict import Record, Verdict
from ackproof.scenario.loader import Configured, load
from ackproof.trials import Trial, TrialStore, attempt, read_trials

[ACKS_0, *_] = load(Path(__file__).parents[3] / "scenarios" / "acks.yaml")


def raising(error: Exception):
    def run_trial(_: Configured) -> tuple[Path, Verdict]:
        raise error

    return run_trial


def test_an_attempt_returns_the_error_of_a_failed_trial():
    failure = ClusterError("no quorum")
    result, seconds = attempt(raising(failure), ACKS_0)
    assert result is failure
    assert seconds >= 0


def test_a_full_disk_ends_the_command_because_no_trial_could_be_stored():
    with pytest.raises(DiskError, match="full"):
        attempt(raising(DiskError("full")), ACKS_0)


def test_finished_trials_are_read_back_without_an_interrupted_one(tmp_path):
    store = TrialStore[Record, Trial](directory=tmp_path, plan=Record())
    finished = [Trial(run_id="a", seconds=1), Trial(error="no quorum", seconds=2)]
    for trial in finished:
        store.add(trial)
    assert store.trials == finished
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"run_id": "b", "sec')
    assert read_trials(tmp_path, Trial) == finished


def test_a_damaged_line_is_an_error(tmp_path):
    (tmp_path / "trials.jsonl").write_text("{}\n")
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_trials(tmp_path, Trial)
