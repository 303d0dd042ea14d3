"""Files that would block a reader for ever, or have no end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ackproof import regular_files
from ackproof.errors import ExitCode, RunDirectoryError
from ackproof.runs.directory import read_lines, read_record, refuse_special_files
from ackproof.runs.verdict import Verdict
from command_line import ackproof


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def test_a_regular_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert regular_files.read(path, most=5) == b"12345"
    with pytest.raises(regular_files.UnfitFileError, match="it has 5 bytes, and 4 is the most"):
        regular_files.read(path, most=4)


def test_every_other_kind_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        for path, kind in (
            (Path("/dev/zero"), "a device"),
            (pipe(tmp_path / "p"), "a pipe"),
            (tmp_path / "s", "a socket"),
        ):
            with pytest.raises(OSError, match=f"it is {kind}, not a file"):
                regular_files.read(path, most=5)
    with pytest.raises(IsADirectoryError):
        regular_files.read(tmp_path, most=5)
    with pytest.raises(FileNotFoundError):
        regular_files.read(tmp_path / "nothing", most=5)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("command", ["validate", "predict", "schedule", "check"])
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
