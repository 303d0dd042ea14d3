"""Files are not read from pipes and devices, and not written through links."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ackproof import safe_files
from ackproof.errors import ExitCode, RunDirectoryError
from ackproof.runs import directory as runs
from ackproof.runs.directory import read_lines, read_record, refuse_special_files
from ackproof.runs.verdict import Verdict
from ackproof.safe_files import create, replacing
from ackproof_spark.tables import CAUSES
from command_line import ackproof


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def test_a_regular_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert safe_files.read(path, most=5) == b"12345"
    with pytest.raises(safe_files.UnfitFileError, match="it has 5 bytes, and 4 is the most"):
        safe_files.read(path, most=4)


def test_every_other_kind_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        for path, kind in (
            (Path("/dev/zero"), "a device"),
            (pipe(tmp_path / "p"), "a pipe"),
            (tmp_path / "s", "a socket"),
        ):
            with pytest.raises(OSError, match=f"it is {kind}, not a file"):
                safe_files.read(path, most=5)
    with pytest.raises(IsADirectoryError):
        safe_files.read(tmp_path, most=5)
    with pytest.raises(FileNotFoundError):
        safe_files.read(tmp_path / "nothing", most=5)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("command", ["validate", "predict", "check"])
def test_no_command_waits_for_a_pipe_or_reads_a_device(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ackproof.spark_session.start_early", lambda: None)
    pipe(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for name, kind in (("pipe.yaml", "a pipe"), ("zero.yaml", "a device")):
        assert ackproof(command, tmp_path / name) == ExitCode.USAGE
        assert f"{name}: cannot be read: it is {kind}" in capsys.readouterr().err


@pytest.mark.timeout(30)
def test_a_pipe_in_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackproof.spark_session.start_early", lambda: None)
    run_dir = tmp_path / "runs" / "a"
    run_dir.mkdir(parents=True)
    pipe(run_dir / "run.json")
    pipe(run_dir / "verdict.json")
    for read in (read_record, refuse_special_files):
        with pytest.raises(RunDirectoryError, match="is a pipe"):
            read(run_dir)
    with pytest.raises(RunDirectoryError, match="it is a pipe"):
        read_lines(run_dir / "run.json", Verdict)
    assert ackproof("runs", "--out", run_dir.parent, "--json") == ExitCode.HOLDS
    assert '"verdict": null' in capsys.readouterr().out
    for command in ("check", "report"):
        assert ackproof(command, run_dir) == ExitCode.USAGE
        assert "is a pipe" in capsys.readouterr().err


CLOCK = runs.Clock(of="broker 1", offset_ms=0, give_or_take_ms=1)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        create(tmp_path)


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_nothing_is_written_through_links(
    tmp_path: Path, victim: Path, kind: str, suffix: str
) -> None:
    for name in ("verdict.json", "causes.parquet"):
        getattr(tmp_path / (name + suffix), kind)(victim)
    runs.write_model(tmp_path / "verdict.json", CLOCK)
    runs.write_table(tmp_path / "causes.parquet", CAUSES, "run", [])
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("causes.parquet", "verdict.json", "victim")
    ]
    assert runs.read_model(tmp_path, "verdict.json", runs.Clock) == CLOCK
