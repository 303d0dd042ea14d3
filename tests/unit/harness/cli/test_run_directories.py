"""Commands that take many run directories, such as ``runs/*``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackproof.cli.options import run_directories
from ackproof.errors import ExitCode, RunDirectoryError
from ackproof.runs.addresses import OpenedRun
from ackproof.runs.directory import read_verdict
from ackproof.runs.verdict import Verdict, Word
from command_line import ackproof
from support.synthetic_run import Options, make


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one run, the link to it, a comparison and an interrupted shrink."""
    for name in ("20260101T000000Z-a-comparison", "20260102T0-a-shrink"):
        (tmp_path / name).mkdir()
    (tmp_path / "latest").symlink_to("20260101T000000Z-a-1")
    (tmp_path / "20260101T000000Z-a-comparison" / "plan.json").write_text("{}")
    (tmp_path / "20260102T0-a-shrink" / "plan.json").write_text("{}")
    make(tmp_path / "20260101T000000Z-a-1", Options())
    return tmp_path


def test_directories_of_several_runs_are_skipped_and_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_directories(sorted(runs.iterdir())) == [runs / "20260101T000000Z-a-1"]
    output = capsys.readouterr().err
    assert "a-comparison: skipped" in output
    assert "a-shrink: skipped" in output


def test_a_run_without_a_verdict_beside_others_is_skipped(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = runs / "20260103T000000Z-a-1"
    interrupted.mkdir()
    (interrupted / "run.json").write_text("{}")
    assert run_directories(sorted(runs.iterdir())) == [runs / "20260101T000000Z-a-1"]
    assert f"judge it with: ackproof check {interrupted}" in capsys.readouterr().err
    assert run_directories([interrupted]) == [interrupted], "named alone, reading it is an error"


def test_nothing_but_a_comparison_is_an_error(runs: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no run"):
        run_directories([runs / "20260101T000000Z-a-comparison"])


def test_a_baseline_is_written_beside_a_comparison(runs: Path, tmp_path: Path) -> None:
    to = tmp_path / "baseline.json"
    assert ackproof("runs", *runs.glob("2*"), "--write-baseline", to) == ExitCode.HOLDS
    assert len(json.loads(to.read_text())["configurations"]) == 1


def test_a_stored_run_is_found_by_its_name(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent)
    monkeypatch.setattr("ackproof.cli.options.RUNS", Path(runs.name))
    name = Path("20260101T000000Z-a-1")
    assert run_directories([name]) == [runs / name]
    with pytest.raises(RunDirectoryError, match="no such run directory"):
        run_directories([Path("20260101T000000Z-b-1")])


def test_a_wrong_name_hides_no_verdict_of_the_other_runs(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def violated(run: OpenedRun) -> Verdict:
        return read_verdict(run.folder).model_copy(update={"verdict": Word.VIOLATED})

    monkeypatch.setattr("ackproof.judgement.judge.judge_run", violated)
    monkeypatch.setattr("ackproof.spark_session.start_early", lambda: None)
    for wrong in ("nowhere", "x" * 5_000):
        assert ackproof("check", wrong, runs / "latest", "--json") == ExitCode.VIOLATED
        printed = capsys.readouterr()
        assert [one["verdict"] for one in json.loads(printed.out)] == ["violated"]
        assert f"{wrong[:7]}" in printed.err
        assert "no such run directory" in printed.err
        assert len(printed.err) < 500


@pytest.mark.parametrize("command", ["check", "report", "replay", "validate", "predict"])
def test_a_path_that_is_too_long_is_refused(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackproof.spark_session.start_early", lambda: None)
    assert ackproof(command, "x" * 5_000) == ExitCode.USAGE
    output = capsys.readouterr().err
    assert "xxx…xxx" in output
    assert len(output) < 500
